import Dispatch
import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Async forms do not block the cooperative pool: they run on other threads.
@Suite struct AsyncThreadTests {
    private let store: TestStore
    private let backend: EncryptedFileBackend
    private let lockbox: Lockbox
    /// How many system calls were made, and closures called.
    private let seen: Protected<Int>
    private let done = Protected<Set<String>>([])

    init() throws {
        let (store, seen) = (try TestStore(), Protected(0))
        backend = store.backend(
            SystemCalls { call in
                // Descriptors are closed with whatever held them last, also with the test's own backend.
                if call != .close { Self.see("\(call)", seen) }
                return nil
            }
        )
        lockbox = try backend.lockbox()
        (self.store, self.seen) = (store, seen)
    }

    /// Threads of the cooperative pool run tasks.
    private static func see(_ what: Comment, _ seen: Protected<Int>) {
        withUnsafeCurrentTask { #expect($0 == nil, what) }
        seen.withLock { $0 += 1 }
    }

    @Sendable private func see(_ progress: StoreProgress) { Self.see("\(progress)", seen) }

    /// - Parameter isSilent: Whether it makes no system call that a test can see.
    @discardableResult
    private func run<Result>(
        _ call: String,
        isSilent: Bool = false,
        _ body: () async throws -> Result
    ) async throws -> Result {
        let before = seen.withLock { $0 }
        let result = try await body()
        #expect(isSilent || seen.withLock { $0 } > before, "\(call)")
        done.withLock { _ = $0.insert(call) }
        return result
    }

    @Test func theyDoNotRunInTheCooperativePool() async throws {
        withUnsafeCurrentTask { #expect($0 != nil, "the control") }
        try await items()
        try await manyItems()
        try await typedKeys()
        try await damagedItems()
        try await passcodesAndSlots()
        try await wholeStore()
    }

    /// Calls that are blocked, however many, hold up no task that has nothing to do with them.
    @Test func whatIsBlockedHoldsUpNoOtherTask() async {
        // In a process of its own, in which no other test holds the pool's threads.
        await #expect(processExitsWith: .success) { try await AsyncThreadTests.blockManyCalls() }
    }

    private static func blockManyCalls() async throws {
        let (blocked, release) = (Protected(0), DispatchSemaphore(value: 0))
        let hooked = HookedBackend(beforeReading: { _ in
            blocked.withLock { $0 += 1 }
            release.wait()
        })
        let lockbox = try hooked.lockbox()
        let count = 40
        let calls = (0..<count).map { _ in
            Task { try await lockbox.unarchiveObject(String.self, forKey: "k") }
        }
        let begin = ContinuousClock.now
        while blocked.withLock({ $0 }) < count, .now - begin < .seconds(20) {
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(blocked.withLock { $0 } == count, "each has a thread at once")
        var shortest = Duration.seconds(60)
        // A busy machine may delay some.
        for _ in 0..<20 where shortest > .milliseconds(200) {
            let sleep = await ContinuousClock().measure { try? await Task.sleep(for: .milliseconds(50)) }
            shortest = min(shortest, sleep)
        }
        #expect(shortest < .milliseconds(200))
        for _ in 0..<count { release.signal() }
        for call in calls { #expect(try await call.value == nil) }
    }

    /// Eight writers wait for a lock that another process holds, and two unlocks run Argon2id.
    @Test func locksAndUnlocksHoldUpNoOtherTask() async {
        await #expect(processExitsWith: .success) { try await AsyncThreadTests.waitForLocksAndUnlock() }
    }

    private static func waitForLocksAndUnlock() async throws {
        let (store, unlocked) = (try TestStore(), try TestStore())
        let writing = try store.backend(lockTimeout: .seconds(60)).lockbox()
        try await writing.archiveObject("old", forKey: "k")
        try await unlocked.backend().setPasscode(.value("1"))
        let holder = try TestProcess("hold", store.directory, "k")
        holder.waitForOutput()
        let writers = (0..<8).map { _ in Task { try await writing.archiveObject("new", forKey: "k") } }
        // The tests' process does not compute the right one again.
        let unlocks = ["2", "3"].map { passcode in
            Task { try await unlocked.backend().unlock(.value(passcode)) }
        }
        // From the first moment on: a queue of the system makes another thread each second.
        var longest = Duration.zero
        for _ in 0..<4 {
            let sleep = await ContinuousClock().measure { try? await Task.sleep(for: .milliseconds(50)) }
            longest = max(longest, sleep)
        }
        #expect(longest < .milliseconds(200))
        for unlock in unlocks {
            await #expect(throws: LockboxError.wrongPasscode) { try await unlock.value }
        }
        #expect(try await writing.unarchiveObject(forKey: "k") == "old")
        #expect(holder.wait() == 0)
        for writer in writers { try await writer.value }
        #expect(try await writing.unarchiveObject(forKey: "k") == "new")
    }

    /// Each takes 64 MiB and more. A server that is asked for many at a time would be killed.
    @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/self/status")))
    func unlocksTakeTurnsOnTheProcessors() async {
        await #expect(processExitsWith: .success) { try await AsyncThreadTests.unlockManyTimes() }
    }

    private static func unlockManyTimes() async throws {
        let processors = ProcessInfo.processInfo.activeProcessorCount
        // Not the cost that tests have a short hash for.
        let memory = Int(Argon2id.interactive.memory) + (1 << 20)
        let before = try peakMemory()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<UInt8(4 * processors) {
                group.addTask {
                    try await offPool {
                        var output = [UInt8](repeating: 0, count: 32)
                        try output.withUnsafeMutableBytes { output in
                            try [1, 2].withUnsafeBytes {
                                try Argon2id.derive(
                                    $0,
                                    salt: SIMD16(repeating: number),
                                    operations: 1,
                                    memory: UInt64(memory),
                                    into: output
                                )
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let taken = try peakMemory() - before
        #expect(taken > memory / 2 && taken < (processors + 1) * memory + memory / 2)
    }

    /// In bytes.
    private static func peakMemory() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
        return try #require(line.split(separator: " ").dropFirst().compactMap { Int($0) }.first) * 1024
    }

    private func items() async throws {
        let writing = "expires:label:comment:attributes:"
        try await run("Lockbox.archiveObject(_:forKey:accessibility:\(writing)policy:)") {
            try await lockbox.archiveObject("v", forKey: "k")
        }
        let value = try await run("Lockbox.unarchiveObject(_:forKey:)") {
            try await lockbox.unarchiveObject(String.self, forKey: "k")
        }
        #expect(value == "v")
        try await run("Lockbox.unarchiveObjects(_:forKeys:)") {
            try await lockbox.unarchiveObjects(String.self, forKeys: ["k"])
        }
        try await run("Lockbox.unarchiveItem(_:forKey:)") {
            try await lockbox.unarchiveItem(String.self, forKey: "k")
        }
        try await run("Lockbox.unarchiveItems(_:matching:unreadable:)") {
            try await lockbox.unarchiveItems(String.self, matching: [:])
        }
        try await run("Lockbox.removeObjects(matching:unreadable:)") {
            try await lockbox.removeObjects(matching: ["a": "b"])
        }
        try await run("Lockbox.update(_:as:accessibility:\(writing)_:)") {
            try await lockbox.update("k", as: String.self) { $0 = "w" }
        }
        try await run("Lockbox.setAttributes(forKey:accessibility:\(writing))") {
            try await lockbox.setAttributes(forKey: "k", label: "L")
        }
        try await run("Lockbox.setAccessibility(_:forKey:)") {
            try await lockbox.setAccessibility(.always, forKey: "k")
        }
        try await run("Lockbox.containsObject(forKey:)") { try await lockbox.containsObject(forKey: "k") }
        try await run("Lockbox.attributes(forKey:)") { try await lockbox.attributes(forKey: "k") }
        try await run("Lockbox.copyObject(forKey:toKey:toPrefix:policy:)") {
            try await lockbox.copyObject(forKey: "k", toKey: "copy")
        }
        try await run("Lockbox.moveObject(forKey:toKey:toPrefix:policy:)") {
            try await lockbox.moveObject(forKey: "copy", toKey: "moved")
        }
        try await run("Lockbox.removeObject(forKey: String)") {
            try await lockbox.removeObject(forKey: "moved")
        }
    }

    private func manyItems() async throws {
        #expect(try await run("Lockbox.allKeys()") { try await lockbox.allKeys() } == ["k"])
        try await run("Lockbox.allAttributes()") { try await lockbox.allAttributes() }
        try await run("Lockbox.list(matching:includingExpired:)") { try await lockbox.list() }
        try await run("Lockbox.forEachItem(unreadable:_:)") {
            try await lockbox.forEachItem { _, attributes in Self.see("\(attributes)", seen) }
        }
        try await run("Lockbox.batch(_:)") {
            try await lockbox.batch { try $0.archiveObject("v", forKey: "batch") }
        }
        try await run("Lockbox.checkAccess(accessibility:)") { try await lockbox.checkAccess() }
        try await run("Lockbox.changes()") { _ = try await lockbox.changes() }
        try await run("LockboxBackend.prefixes()") { try await backend.prefixes() }
        try await run("LockboxBackend.prefixes(unreadable:)") { try await backend.prefixes { _ in } }
        try await run("Lockbox.removeExpired(unreadable:)") { try await lockbox.removeExpired() }
        try await run("Lockbox.removeAllObjects()") { try await lockbox.removeAllObjects() }
    }

    private func typedKeys() async throws {
        let key = LockboxKey<Int>("count", default: 0)
        try await run("Lockbox.archiveObject(_:forKey:expires:policy:)") {
            try await lockbox.archiveObject(1, forKey: key)
        }
        let value = try await run("Lockbox.unarchiveObject(forKey:)") {
            try await lockbox.unarchiveObject(forKey: key)
        }
        #expect(value == 1)
        try await run("Lockbox.update(_:_:)") { try await lockbox.update(key) { $0 += 1 } }
        try await run("Lockbox.removeObject(forKey: LockboxKey<Value>)") {
            try await lockbox.removeObject(forKey: key)
        }
        let item = LockboxItem(key, in: lockbox)
        try await run("LockboxItem.set(_:)") { try await item.set(1) }
        try await run("LockboxItem.update(_:)") { try await item.update { $0 += 1 } }
        #expect(try await run("LockboxItem.value()") { try await item.value() } == 2)
        try await run("LockboxItem.remove()") { try await item.remove() }
    }

    private func damagedItems() async throws {
        try await run("Lockbox.remove(_:)") { try await lockbox.remove(damagedItem()) }
        try await run("Lockbox.quarantine(_:)") { try await lockbox.quarantine(damagedItem()) }
        try await run("RepairableBackend.remove(record:)") {
            try await backend.remove(record: damagedItem().record)
        }
        try await run("RepairableBackend.quarantine(record:)") {
            try await backend.quarantine(record: damagedItem().record)
        }
        #expect(try await lockbox.list() == ItemList())
    }

    /// Made by others: it is not one of the calls that are looked at.
    private func damagedItem() throws -> UnreadableItem {
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("v", forKey: "damaged")
        var bytes = try readBytes(store.path("damaged"))
        bytes[100] ^= 1
        try overwrite(store.path("damaged"), bytes)
        return try #require(try lockbox.list().unreadable.first)
    }

    private func passcodesAndSlots() async throws {
        try await lockbox.archiveObject("v", forKey: "k")
        #expect(
            try await run("LockableBackend.lockState()") { try await backend.lockState() } == .unprotected
        )
        try await run("SealedBackend.setPasscode(_:strength:resealing:progress:)") {
            try await backend.setPasscode(.value("1"), strength: .interactive, progress: see)
        }
        try await run("SealedBackend.changePasscode(from:to:strength:resealing:progress:)") {
            try await backend.changePasscode(to: .value("2"), strength: .interactive, progress: see)
        }
        let code = RecoveryCode()
        try await run("SealedBackend.addRecoveryCode(_:confirmation:label:resealing:progress:)") {
            try await backend.addRecoveryCode(code, confirmation: .value(code.text), progress: see)
        }
        let key = KeyUnlock(.bytes([UInt8](repeating: 1, count: 32)))
        try await run("SealedBackend.addSlot(_:label:opensAllClasses:resealing:progress:)") {
            try await backend.addSlot(key, label: "L", opensAllClasses: true, progress: see)
        }
        let slots = try await run("SealedBackend.slots()") { try await backend.slots() }
        #expect(slots.map(\.kind) == [.passcode, .recoveryCode, .key])
        try await run("SealedBackend.identity()") { try await backend.identity() }
        try await run("SealedBackend.status()") { try await backend.status() }
        try await run("SealedBackend.lock(includingAfterFirstUnlock:)", isSilent: true) {
            try await backend.lock(includingAfterFirstUnlock: true)
        }
        #expect(try await run("SealedBackend.unlockScope()") { try await backend.unlockScope() } == nil)
        try await run("SealedBackend.unlock(with:scope:timeout:)") { try await backend.unlock(with: key) }
        try await run("SealedBackend.unlock(_:scope:timeout:)") { try await backend.unlock(.value("2")) }
        #expect(try await backend.unlockScope() == .process)
        try await run("SealedBackend.removeSlot(_:resealing:progress:)") {
            try await backend.removeSlot(slots[2].id, progress: see)
        }
        try await run("SealedBackend.acceptRestored(_:progress:)") {
            try await backend.acceptRestored(.passcode(.value("2")), progress: see)
        }
        try await run("SealedBackend.removePasscode(_:includingOtherSlots:resealing:progress:)") {
            try await backend.removePasscode(progress: see)
        }
    }

    private func wholeStore() async throws {
        let rotated = try await run("SealedBackend.rotateKeys(newDeviceKey:progress:)") {
            try await backend.rotateKeys(progress: see)
        }
        #expect(rotated.resealedCount == 1)
        let verified = try await run("VerifiableBackend.verify(progress:)") {
            try await backend.verify(progress: see)
        }
        #expect(verified.intactCount == 1)
        let path = Path.parent(of: store.directory) + "/backup"
        let exported = try await run(
            "SealedBackend.exportBackup(to:passphrase:prefix:strength:replacing:progress:)"
        ) {
            try await backend.exportBackup(
                to: path,
                passphrase: .value("p"),
                strength: .interactive,
                progress: see
            )
        }
        #expect(exported.exportedCount == 1)
        let imported = try await run(
            "SealedBackend.importBackup(from:passphrase:existing:maximumStrength:progress:)"
        ) {
            try await backend.importBackup(from: path, passphrase: .value("p"), progress: see)
        }
        #expect(imported.unchangedCount == 1)
        let other = InMemoryBackend()
        let copied = try await run("LockboxBackend.copyItems(to:prefix:existing:progress:)") {
            try await backend.copyItems(to: other, progress: see)
        }
        #expect(copied.isComplete)
        let moved = try await run("LockboxBackend.moveItems(to:prefix:existing:progress:)") {
            try await other.moveItems(to: backend, progress: see)
        }
        #expect(moved.isComplete)
        #expect(try await other.prefixes() == [])
        let migration = Migration(nil, from: .items(["old": Data("v".utf8)]), .string("old"))
        let report = try await run("Lockbox.migrate(_:dryRun:progress:)") {
            try await lockbox.migrate(migration, progress: see)
        }
        #expect(report["old"] == .migrated)
        let keys = try await run("MigrationSource.keys(for:unreadable:)") {
            try await MigrationSource.backend(backend, keyPrefix: TestStore.prefix).keys(for: lockbox)
        }
        #expect(keys.sorted() == ["k", "old"])
    }
}
