import Dispatch
import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Async forms do not block the cooperative pool: they run on other threads.
@Suite struct AsyncThreadTests {
    private let store: TestStore
    private let backend: EncryptedFileBackend
    private let lockbox: Lockbox
    /// How many system calls were made, and closures called.
    private let seen: Protected<Int>

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

    @discardableResult
    private func run<Result>(_ call: String, _ body: () async throws -> Result) async throws -> Result {
        let before = seen.withLock { $0 }
        let result = try await body()
        #expect(seen.withLock { $0 } > before, "\(call)")
        return result
    }

    @Test func theyDoNotRunInTheCooperativePool() async throws {
        withUnsafeCurrentTask { #expect($0 != nil, "the control") }
        try await items()
        try await typedKeys()
        try await bridges()
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
        _ = try await unlocked.backend().async { try $0.setPasscode(.value("1")) }
        let holder = try TestProcess("hold", store.directory, "k")
        holder.waitForOutput()
        let writers = (0..<8).map { _ in Task { try await writing.archiveObject("new", forKey: "k") } }
        // The tests' process does not compute the right one again.
        let unlocks = ["2", "3"].map { passcode in
            Task { try await unlocked.backend().async { try $0.unlock(.value(passcode)) } }
        }
        // A queue of the system makes another thread each second, so ten calls would hold others up for longer. A busy machine
        // delays them too.
        let sleeps = await ContinuousClock().measure {
            for _ in 0..<4 { try? await Task.sleep(for: .milliseconds(50)) }
        }
        #expect(sleeps < .seconds(2))
        for unlock in unlocks {
            await #expect(throws: LockboxError.wrongPasscode) { try await unlock.value }
        }
        #expect(try await writing.unarchiveObject(forKey: "k") == "old")
        #expect(holder.wait() == 0)
        for writer in writers { try await writer.value }
        #expect(try await writing.unarchiveObject(forKey: "k") == "new")
    }

    /// More writers than there are threads wait for a lock.
    @Test func writersHoldUpNoRead() async {
        await #expect(processExitsWith: .success) { try await AsyncThreadTests.readBesideWriters() }
    }

    private static func readBesideWriters() async throws {
        let store = try TestStore()
        let writing = try Lockbox(
            keyPrefix: "com.example.process",
            backend: store.backend(lockTimeout: .seconds(60))
        )
        try await writing.archiveObject("old", forKey: "k")
        let holder = try TestProcess("hold", store.directory, "k")
        holder.waitForOutput()
        let writers = (0..<300).map { _ in Task { try await writing.archiveObject("new", forKey: "k") } }
        try await Task.sleep(for: .milliseconds(500))
        let reads = try await ContinuousClock().measure {
            for lockbox in [writing, try InMemoryBackend().lockbox()] {
                let read = Task { try await lockbox.unarchiveObject(String.self, forKey: "k") }
                let limit = Task {
                    try await Task.sleep(for: .seconds(20))
                    exit(3)  // they would wait for the writers, and these for the end of this
                }
                _ = try await read.value
                limit.cancel()
            }
        }
        #expect(reads < .seconds(5))
        #expect(holder.wait() == 0)
        for writer in writers { try await writer.value }
    }

    /// At a limit of processes, the system gives no thread.
    @Test(.enabled(if: Preload.isThere)) func withoutAThreadACallFails() throws {
        let preload = try Preload("int pthread_create() { return 11; }")
        let process = try TestProcess(["async"], environment: preload.environment)
        process.killAfter(.seconds(30))
        #expect(process.allOutput() == "pthread_create 11\n")
        #expect(process.wait() == 0)
    }

    /// In line behind a thread of this process, and behind another process.
    @Test(arguments: [true, false]) func cancelingEndsAWaitForALock(isHeldHere: Bool) async throws {
        let waiting = store.backend(lockTimeout: .seconds(60))
        let lockbox = try waiting.lockbox()
        try await lockbox.archiveObject("old", forKey: "k")
        let holder = isHeldHere ? waiting : store.backend()
        let record = try holder.recordName(of: ItemKey(prefix: TestStore.prefix, key: "k"))
        try await holder.async { holder in
            try holder.storage.holdingLock(of: record.namespace) {
                let write = Task { try await lockbox.archiveObject("new", forKey: "k") }
                usleep(100_000)
                let start = ContinuousClock.now
                write.cancel()
                let error = Protected<(any Error)?>(nil)
                let done = DispatchSemaphore(value: 0)
                Task {
                    do { try await write.value } catch let thrown { error.withLock { $0 = thrown } }
                    done.signal()
                }
                #expect(done.wait(timeout: .now() + 20) == .success)
                #expect(error.withLock { $0 } is CancellationError)
                #expect(ContinuousClock.now - start < .seconds(20))
            }
        }
        #expect(try await lockbox.unarchiveObject(forKey: "k") == "old")
        try await lockbox.archiveObject("newer", forKey: "k")
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
        try await run("archiveObject") { try await lockbox.archiveObject("v", forKey: "k") }
        try await run("archiveObject with options") {
            try await lockbox.archiveObject("v", forKey: "k", options: WriteOptions(label: "L"))
        }
        let value = try await run("unarchiveObject") {
            try await lockbox.unarchiveObject(String.self, forKey: "k")
        }
        #expect(value == "v")
        try await run("update") { try await lockbox.update("k", as: String.self) { $0 = "w" } }
        try await run("removeObject") { try await lockbox.removeObject(forKey: "k") }
    }

    private func typedKeys() async throws {
        let key = LockboxKey<Int>("count", default: 0)
        try await run("archiveObject of a typed key") { try await lockbox.archiveObject(1, forKey: key) }
        let value = try await run("unarchiveObject of a typed key") {
            try await lockbox.unarchiveObject(forKey: key)
        }
        #expect(value == 1)
        try await run("update of a typed key") { try await lockbox.update(key) { $0 += 1 } }
        try await run("removeObject of a typed key") { try await lockbox.removeObject(forKey: key) }
    }

    private func bridges() async throws {
        let keys = try await run("Lockbox.async") {
            try await lockbox.async { lockbox in
                Self.see("the closure", seen)
                return try lockbox.allKeys()
            }
        }
        #expect(keys.isEmpty)
        let report = try await run("LockboxBackend.async") { try await backend.async { try $0.verify() } }
        #expect(report == VerifyReport())
        await #expect(throws: Quoting.self) {
            try await lockbox.async { _ in throw Quoting(text: "its own") }
        }
    }
}
