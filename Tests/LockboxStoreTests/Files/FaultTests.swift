import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Every system call fails once, each in turn: the old value or the new one is there afterwards, the error is
/// typed, no descriptor is left open, and the next try works.
@Suite struct FaultTests {
    /// Counts the calls, and gives one of them its fault.
    private final class Injector: Sendable {
        private let state = Protected((count: 0, hit: SystemCalls.Call?.none))
        private let target: Int
        private let fault: SystemCalls.Fault

        init(_ target: Int, _ fault: SystemCalls.Fault) {
            self.target = target
            self.fault = fault
        }

        var hit: SystemCalls.Call? { state.withLock { $0.hit } }

        var calls: SystemCalls {
            SystemCalls(fault: { [self] call in
                state.withLock { state in
                    state.count += 1
                    guard state.count == target else { return nil }
                    state.hit = call
                    return fault
                }
            })
        }
    }

    private static let codes: [CInt] = [EIO, ENOSPC, EACCES, EMFILE, EROFS, EDQUOT, ESTALE]

    enum Operation: CaseIterable {
        case first, replace, add, update, changeClass, remove, removeAll, removeExpired
    }

    private func prepare(_ operation: Operation) throws -> TestStore {
        let store = try TestStore()
        if operation == .first { return store }
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("bystander", forKey: "bystander")
        if operation != .add {
            try lockbox.archiveObject(
                "old",
                forKey: "key",
                options: WriteOptions(expires: operation == .removeExpired ? .at(.distantPast) : .never)
            )
        }
        return store
    }

    private func run(_ operation: Operation, on lockbox: Lockbox) throws {
        switch operation {
        case .first, .replace: try lockbox.archiveObject("new", forKey: "key")
        case .add: try lockbox.archiveObject("new", forKey: "key", options: WriteOptions(policy: .addOnly))
        case .update:
            try lockbox.archiveObject("new", forKey: "key", options: WriteOptions(policy: .updateOnly))
        case .changeClass: try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "key")
        case .remove: try lockbox.removeObject(forKey: "key")
        case .removeAll: try lockbox.removeAllObjects()
        case .removeExpired: try lockbox.removeExpired()
        }
    }

    /// The values that may be there after the operation failed, and after it succeeded.
    private func values(_ operation: Operation) -> (failed: Set<String?>, done: Set<String?>) {
        switch operation {
        case .first, .add: ([nil, "new"], ["new"])
        case .replace, .update: (["old", "new"], ["new"])
        case .changeClass: (["old"], ["old"])
        case .remove, .removeAll: (["old", nil], [nil])
        case .removeExpired: ([nil], [nil])
        }
    }

    @Test(
        "Promise 2: whichever system call fails, the old value or the new one is there",
        arguments: Operation.allCases
    )
    func everyCallFailsOnce(_ operation: Operation) throws {
        let prepared = try prepare(operation)
        var number = Interruption.start
        var finished = false
        while !finished {
            number += Interruption.stride
            for code in Self.codes {
                let store = try TestStore(copying: prepared)
                let injector = Injector(number, .failure(code))
                let error = try failing(operation, store, injector)
                guard let call = injector.hit else {
                    finished = true
                    break
                }
                let what = "\(operation): call \(number), \(call), errno \(code)"
                try expectWhole(store, operation, error, what)
            }
        }
        #expect(number > 10, "it ran out of calls too early to have done anything")
    }

    private func failing(_ operation: Operation, _ store: TestStore, _ injector: Injector) throws -> (
        any Error
    )? {
        do { try run(operation, on: store.backend(injector.calls).lockbox()) } catch { return error }
        return nil
    }

    private func expectWhole(
        _ store: TestStore,
        _ operation: Operation,
        _ error: (any Error)?,
        _ what: String
    ) throws {
        #expect(error == nil || error is LockboxError, "\(what): \(String(describing: error))")
        #expect(store.openDescriptors() == 0, "\(what): descriptors left open")
        let lockbox = try store.lockbox()
        let value: String? = try lockbox.unarchiveObject(forKey: "key")
        let (failed, done) = values(operation)
        #expect((error == nil ? done : failed).contains(value), "\(what): \(String(describing: value))")
        if operation != .first, operation != .removeAll {
            #expect(try lockbox.unarchiveObject(forKey: "bystander") == "bystander", "\(what)")
        }
        if error != nil {
            // It can be tried again: with success, or because it was done after all.
            let again = lockboxError { try run(operation, on: lockbox) }
            #expect(
                again == nil || operation == .add && again?.code == .duplicateItem,
                "\(what): \(String(describing: again))"
            )
            #expect(done.contains(try lockbox.unarchiveObject(String.self, forKey: "key")), "\(what)")
        }
        #expect(try store.leftovers() == [], "\(what)")
    }

    /// A failed reading call says so; it never says that there is nothing.
    @Test("Promise 1: a read that fails is never nil") func aFailedReadIsNeverNil() throws {
        let store = try prepare(.replace)
        var number = 0
        var hits = 0
        let reads: [(Lockbox) throws -> Bool] = [
            { try $0.unarchiveObject(String.self, forKey: "key") != nil },
            { try $0.attributes(forKey: "key") != nil },
            { try $0.allKeys() == ["key", "bystander"] },
            { try $0.backend.prefixes() == [TestStore.prefix] },
        ]
        for read in reads {
            number = 0
            while true {
                number += 1
                let before = try store.snapshot()
                let injector = Injector(number, .failure(EIO))
                let found = try? read(store.backend(injector.calls).lockbox())
                #expect(found != false, "call \(number), \(String(describing: injector.hit)): read as absent")
                #expect(try store.snapshot() == before)
                #expect(store.openDescriptors() == 0)
                if injector.hit == nil { break }
                hits += 1
            }
        }
        #expect(hits > 40)
    }

    @Test func shortReadsAndWritesAreCompleted() throws {
        let store = try TestStore()
        let calls = SystemCalls(fault: { $0 == .read || $0 == .write ? .partial : nil })
        let data = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0) })
        try store.backend(calls).lockbox().archiveObject(data, forKey: "key")
        #expect(try store.backend(calls).lockbox().unarchiveObject(forKey: "key") == data)
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == data)
    }

    @Test func interruptedCallsAreMadeAgain() throws {
        let store = try TestStore()
        let count = Protected(0)
        let calls = SystemCalls(fault: { _ in
            count.withLock {
                $0 += 1; return $0 % 2 == 0 ? .failure(EINTR) : nil
            }
        })
        try store.backend(calls).lockbox().archiveObject("secret", forKey: "key")
        #expect(try store.backend(calls).lockbox().unarchiveObject(forKey: "key") == "secret")
    }

    /// The order that alone survives a power cut: see "Writing" in OnDiskFormat.md.
    @Test("Promise 2: a write is synchronized before and after its rename") func orderOfSystemCalls() throws {
        let store = try prepare(.replace)
        let trace = Protected<[SystemCalls.Call]>([])
        let calls = SystemCalls(fault: { call in
            trace.withLock { $0.append(call) }
            return nil
        })
        let lockbox = try store.backend(calls).lockbox()
        try lockbox.archiveObject("new", forKey: "key")
        // The rename is between two writes of the change count.
        #expect(
            trace.withLock { $0.filter { [.write, .fsync, .rename].contains($0) } } == [
                .write, .fsync, .write, .rename, .write, .fsync,
            ]
        )
        // The file is closed before, and locked by another descriptor; nobody waits for the last fsync.
        let made = trace.withLock { $0 }
        let file = try #require(made.firstIndex(of: .fsync))
        #expect(made[file...].prefix(3) == [.fsync, .open, .close])
        #expect(made.firstIndex(of: .rename)! > file + 2)
        trace.withLock { $0 = [] }
        try lockbox.removeObject(forKey: "key")
        #expect(trace.withLock { $0.filter { [.unlink, .fsync].contains($0) } } == [.unlink, .fsync])

        // Whoever removed it may have been killed before its synchronization.
        let removals: [(Lockbox) throws -> Void] = [
            { try $0.removeObject(forKey: "key") },
            { try $0.removeAllObjects() },
            { try $0.removeAllObjects() },
            { try $0.removeExpired() },
            {
                try $0.backend.update(ItemKey(prefix: TestStore.prefix, key: "key"), now: Date()) { _ in nil }
            },
        ]
        for (number, remove) in removals.enumerated() {
            trace.withLock { $0 = [] }
            try remove(lockbox)
            #expect(
                trace.withLock { $0.last { [.unlink, .fsync].contains($0) } } == .fsync,
                "removal \(number)"
            )
        }
    }

    /// After a power cut, the item would be at neither key.
    @Test("Promise 2: a move that was killed is completed when its new item is durable")
    func aMoveThatIsCompletedSynchronizesItsNewItem() throws {
        let store = try prepare(.replace)
        let backend = store.backend()
        let old = try ItemKey(storedPrefix: TestStore.prefix, key: "key")
        let new = try ItemKey(storedPrefix: "com.example.other", key: "key")
        let item = try #require(try backend.item(for: old, now: nil))
        try backend.write(item.renamed(to: new), policy: .addOnly)
        let path = try store.path("key")
        let failing = store.backend(
            SystemCalls { call in
                guard call == .fsync else { return nil }
                // Nothing has left the old folder by then.
                #expect(FileManager.default.fileExists(atPath: path))
                return .failure(EIO)
            }
        )
        expectError(.storageFailure) { try failing.move(old, to: new, policy: .addOnly, now: Date()) }
        #expect(try backend.item(for: old, now: nil) == item)
        try backend.move(old, to: new, policy: .addOnly, now: Date())
        #expect(try backend.item(for: old, now: nil) == nil && backend.item(for: new, now: nil) != nil)
    }

    /// Its parents, too: each is there for good before something is made in it.
    @Test("Promise 2: a new folder is synchronized at once") func orderOfSystemCallsForANewStore() throws {
        let store = try TestStore()
        let trace = Protected<[SystemCalls.Call]>([])
        let storage = FileStorage(
            StoreLocation("\(store.directory)/a/b/c"),
            calls: SystemCalls(fault: { call in
                trace.withLock { if [.mkdir, .fsync, .rename].contains(call) { $0.append(call) } }
                return nil
            })
        )
        try EncryptedFileBackend(storage: storage).lockbox()
            .archiveObject("secret", forKey: "key")
        let calls = trace.withLock { $0 }
        let unsynchronized = zip(calls, calls.dropFirst()).count { $0 == .mkdir && $1 != .fsync }
        #expect(unsynchronized == 2, "two cannot be made before their parents")
        #expect(calls.count { $0 == .mkdir } == 2 + 7, "store, a, b, c, tmp, items, scope")
    }

    /// Its maker may have been killed before its own fsync.
    @Test("Promise 2: a folder that another process made is synchronized by the first who writes to it")
    func orderOfSystemCallsForAFolderThatAKilledProcessMade() throws {
        let store = try prepare(.replace)
        let folder = URL(fileURLWithPath: try store.path("key")).deletingLastPathComponent().path
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
        }
        let count = Protected(0)
        let lockbox = try store.backend(
            SystemCalls(fault: { call in
                if call == .fsync { count.withLock { $0 += 1 } }
                return nil
            })
        ).lockbox()
        try lockbox.archiveObject("secret", forKey: "key")
        #expect(count.withLock { $0 } == 4, "the file, the folder, and the two folders above it")
        try lockbox.archiveObject("secret", forKey: "key")
        #expect(count.withLock { $0 } == 6)
    }

    /// An administrator has made a service's folder where only the way through is allowed, mode 0711.
    @Test func aStoreWhoseParentMustNotBeOpened() throws {
        /// The places of the files that are opened after the first lock. A clock decides how often others are looked at.
        @Sendable func opened(_ calls: [SystemCalls.Call]) -> [Int] {
            let lock = calls.firstIndex(of: .flock) ?? calls.count
            return calls.indices.dropFirst(lock).filter { calls[$0] == .open }
        }
        func made(refusing refused: Int?) throws -> [SystemCalls.Call] {
            let store = try TestStore()
            try FileManager.default.createDirectory(
                atPath: store.directory,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            let trace = Protected<[SystemCalls.Call]>([])
            let lockbox = try store.backend(
                SystemCalls(fault: { call in
                    trace.withLock { trace in
                        trace.append(call)
                        let isRefused = call == .open && opened(trace).count == refused
                        return isRefused ? .failure(EACCES) : nil
                    }
                })
            ).lockbox()
            try lockbox.archiveObject("secret", forKey: "key")
            #expect(try lockbox.unarchiveObject(forKey: "key") == "secret")
            return trace.withLock { $0 }
        }
        // Whoever takes the lock first opens the folder above the store, and synchronizes it.
        let calls = try made(refusing: nil)
        let above = try #require(opened(calls).firstIndex { calls[$0...].dropFirst().first == .fsync })
        let refused = try made(refusing: above + 1)
        #expect(refused.count { $0 == .fsync } == calls.count { $0 == .fsync } - 1)
    }

    @Test func aFileThatShrinksWhileItIsRead() throws {
        let store = try prepare(.replace)
        let path = try store.path("key")
        let isUp = Protected(false)
        let lockbox = try store.backend(
            SystemCalls(fault: { call in
                if call == .read, isUp.withLock({ $0 }) { truncate(path, 100) }
                return nil
            })
        ).lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
        isUp.withLock { $0 = true }
        guard
            case .corrupt(_, "it shrank while it was read") = lockboxError({
                try lockbox.unarchiveObject(String.self, forKey: "key")
            })
        else {
            Issue.record("bytes were used that were not read")
            return
        }
    }

    /// A new file's mode is changed only if the umask has left another one. It belongs to the whole process, hence one of its own.
    @Test func aFailedWriteLeavesNoFile() async {
        await #expect(processExitsWith: .success) {
            for call in [SystemCalls.Call.chmod, .write, .fsync, .close, .rename] {
                try FaultTests().failToWrite(call)
            }
        }
    }

    private func failToWrite(_ failing: SystemCalls.Call) throws {
        let store = try prepare(.replace)
        let armed = Protected(false)
        let calls = SystemCalls(fault: { $0 == failing && armed.withLock { $0 } ? .failure(ENOSPC) : nil })
        let lockbox = try store.backend(calls).lockbox()
        try lockbox.archiveObject("old", forKey: "key")
        let mask = umask(0o777)
        armed.withLock { $0 = true }
        let error = lockboxError { try lockbox.archiveObject("new", forKey: "key") }
        umask(mask)
        #expect(error?._code == -34, "\(failing): \(String(describing: error))")
        #expect(try store.leftovers() == [], "\(failing)")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "old", "\(failing)")
    }

    @Test func fullDiskAndFullQuotaLeaveTheOldValue() throws {
        for call in [SystemCalls.Call.open, .write, .fsync, .close, .rename] {
            let store = try prepare(.replace)
            let armed = Protected(false)
            let calls = SystemCalls(fault: { $0 == call && armed.withLock { $0 } ? .failure(ENOSPC) : nil })
            let lockbox = try store.backend(calls).lockbox()
            #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
            armed.withLock { $0 = true }
            let error = lockboxError { try lockbox.archiveObject("new", forKey: "key") }
            #expect(error?._code == -34, "\(call): \(String(describing: error))")
            armed.withLock { $0 = false }
            #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
        }
    }
}
