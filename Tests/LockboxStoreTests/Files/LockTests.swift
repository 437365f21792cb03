import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Waiting for a lock, and for how long.
@Suite(.tags(.waits), .timeLimit(.minutes(10))) struct LockTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        try store.lockbox().archiveObject("v", forKey: "k")
    }

    /// Holds the lock of the prefix until the process goes.
    private func holder() throws -> TestProcess {
        let holder = try TestProcess("hold", store.directory, "k")
        holder.waitForOutput()
        holder.stop()
        return holder
    }

    /// Not one after the other, each for the whole time.
    @Test func theTimeLimitHoldsForEveryThread() throws {
        let holder = try holder()
        let backend = store.backend(lockTimeout: .milliseconds(500))
        let errors = Protected<[LockboxError?]>([])
        let start = ContinuousClock.now
        let group = DispatchGroup()
        for number in 0..<8 {
            Thread.detachNewThread(in: group) {
                let error = lockboxError {
                    try backend.lockbox().archiveObject("v", forKey: "\(number)")
                }
                errors.withLock { $0.append(error) }
            }
        }
        group.wait()
        #expect(ContinuousClock.now - start < .seconds(2))
        #expect(errors.withLock { $0.count == 8 && $0.allSatisfy { $0?.code == .lockTimeout } })
        holder.kill()
        _ = holder.wait()
        // A waiter left behind lets go of the lock when it gets it.
        try backend.lockbox().archiveObject("v", forKey: "k")
        try store.lockbox().archiveObject("v", forKey: "k")
    }

    /// However often somebody tries.
    @Test func waitingInVainLeavesOneThread() throws {
        let holder = try holder()
        let backend = store.backend(lockTimeout: .milliseconds(20))
        let lockbox = try backend.lockbox()
        #expect(lockboxError { try lockbox.archiveObject("v", forKey: "k") }?.code == .lockTimeout)
        let open = store.openDescriptors()
        for _ in 0..<20 {
            #expect(lockboxError { try lockbox.archiveObject("v", forKey: "k") }?.code == .lockTimeout)
        }
        #expect(store.openDescriptors() == open)
        holder.kill()
        _ = holder.wait()
        try lockbox.archiveObject("v", forKey: "k")
    }

    /// Also if nobody of its process asks for the lock again.
    @Test func whatWaitedInVainKeepsNoLock() throws {
        let holder = try holder()
        let waiting = store.backend(lockTimeout: .milliseconds(20))
        let lockbox = try waiting.lockbox()
        #expect(lockboxError { try lockbox.archiveObject("v", forKey: "k") }?.code == .lockTimeout)
        holder.kill()
        _ = holder.wait()
        let other = store.backend(lockTimeout: .seconds(5))
        try other.lockbox().archiveObject("new", forKey: "k")
        #expect(try lockbox.unarchiveObject(forKey: "k") == "new")
    }

    /// Also if the lock came meanwhile, to a thread that had given up, and has gone to another process since.
    @Test func aLockThatCameAndWentIsWaitedForAnew() throws {
        let first = try holder()
        let waiting = store.backend(lockTimeout: .milliseconds(20))
        let lockbox = try waiting.lockbox()
        #expect(lockboxError { try lockbox.archiveObject("v", forKey: "k") }?.code == .lockTimeout)
        first.kill()
        _ = first.wait()
        let second = try holder()  // has waited for the thread to let go of it
        defer { second.kill() }
        let outcome = Protected<LockboxError?>(nil)
        let group = DispatchGroup()
        Thread.detachNewThread(in: group) {
            let error = lockboxError { try lockbox.archiveObject("v", forKey: "k") }
            outcome.withLock { $0 = error }
        }
        #expect(group.wait(timeout: .now() + 20) == .success)
        #expect(outcome.withLock { $0?.code == .lockTimeout })
    }

    /// When it comes between the last look at the clock and the giving up.
    @Test func aTurnThatComesAtTheLastMomentIsTaken() throws {
        let held = Protected<DirectoryLock?>(nil)
        let (isLate, looks) = (Protected(false), Protected(0))
        let calls = SystemCalls { call in
            // A waiter closes the lock file after each look at the count, and the clock is read before.
            guard call == .close, isLate.withLock({ $0 }) else { return nil }
            switch looks.withLock({ count in
                count += 1; return count
            }) {
            case 1: usleep(30_000)
            case 2:
                let lock = held.withLock { lock in
                    defer { lock = nil }
                    return lock
                }
                lock?.release()
            default: break
            }
            return nil
        }
        let folder = try store.folder(of: "k", calls)
        let first = try folder.queue.acquire(folder, timeout: .seconds(5))
        held.withLock { $0 = first }
        isLate.withLock { $0 = true }
        let second = try folder.queue.acquire(folder, timeout: .milliseconds(20))
        isLate.withLock { $0 = false }
        #expect(looks.withLock { $0 } >= 2)
        second.release()
        try folder.queue.acquire(folder, timeout: .seconds(5)).release()
    }

    /// Not even by who comes again at once, before the process that waits has woken up.
    @Test func whoHadTheLockGivesWayToWhoWaits() throws {
        let (order, other) = (Protected<[String]>([]), try store.folder(of: "k"))
        let (hasComeAgain, group) = (Protected(false), DispatchGroup())
        let calls = Protected<[SystemCalls.Call]>([])
        let folder = try store.folder(
            of: "k",
            SystemCalls { call in
                guard hasComeAgain.withLock({ $0 }) else { return nil }
                calls.withLock { $0.append(call) }
                if call == .read { _ = group.wait(timeout: .now() + 10) }
                return nil
            }
        )
        let lock = try folder.queue.acquire(folder, timeout: .seconds(5))
        Thread.detachNewThread(in: group) {
            let lock = try? other.queue.acquire(other, timeout: .seconds(20))
            order.withLock { $0.append(lock == nil ? "none" : "other") }
            lock?.release()
        }
        let file = try LockFile(folder)
        file.waitUntilItIsWaitedFor()
        lock.release()
        hasComeAgain.withLock { $0 = true }
        let again = try folder.queue.acquire(folder, timeout: .seconds(5))
        order.withLock { $0.append("again") }
        again.release()
        group.wait()
        #expect(order.withLock { $0 } == ["other", "again"])
        // It looks at the change count before it asks for the lock.
        #expect(calls.withLock { $0.prefix { $0 != .flock }.contains(.read) })
    }

    /// Those who wait tell one holder from the next by it.
    @Test func everyHolderLeavesAnotherCount() throws {
        let path = Path.parent(of: try store.path("k"))
        let lock = URL(fileURLWithPath: path).appendingPathComponent("lock").path
        let namespace = URL(fileURLWithPath: path).lastPathComponent
        var counts: Set<[UInt8]> = [try readBytes(lock)]
        for _ in 0..<3 {
            try store.storage().holdingLock(of: namespace) {}
            let count = try readBytes(lock)
            #expect(counts.insert(count).inserted)
            #expect(count[0].isMultiple(of: 2), "no rename is under way")
        }
    }

    /// Also after a writer that was killed during its own.
    @Test(arguments: [0, 1]) func theCountIsOddDuringARename(left: UInt64) throws {
        let lock = Path.parent(of: try store.path("k")) + "/lock"
        var bytes = try readBytes(lock)
        try #require(bytes[0].isMultiple(of: 2))
        bytes[0] += UInt8(left)
        try overwrite(lock, bytes)
        let seen = Protected<[UInt8?]>([])
        let calls = SystemCalls.before(.rename) {
            seen.withLock { $0.append((try? readBytes(lock))?.first) }
            return false
        }
        try store.backend(calls).lockbox().archiveObject("new", forKey: "k")
        #expect(seen.withLock { $0.count == 1 && $0.allSatisfy { $0?.isMultiple(of: 2) == false } })
        #expect(try readBytes(lock)[0].isMultiple(of: 2))
    }

    /// Only one and the same holder is waited for that long.
    @Test func aLockThatChangesHandsIsWaitedForOn() throws {
        let file = try LockFile(store.folder(of: "k"))
        let (isWaiting, looks) = (Protected(false), Protected(0))
        let calls = SystemCalls { call in
            // A waiter looks at the count, and finds a new holder each time.
            guard call == .read, isWaiting.withLock({ $0 }), looks.withLock({ $0 }) < 30 else { return nil }
            #expect(throws: Never.self) { try file.setCount(file.count() + 2) }
            if looks.next() == 30 { file.unlock() }
            return nil
        }
        let lockbox = try store.backend(calls, lockTimeout: .milliseconds(200)).lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "k") == "v")
        #expect(try file.lock())
        _ = isWaiting.raise()
        let start = ContinuousClock.now
        try lockbox.archiveObject("new", forKey: "k")
        #expect(.now - start > .milliseconds(200), "the control: longer than for one holder")
        #expect(try store.lockbox().unarchiveObject(forKey: "k") == "new")
    }

    /// A large batch is synchronized file by file, and who waits for it sees that it goes on.
    @Test func aBatchThatTakesLongIsWaitedFor() throws {
        let (length, isSlow) = (640, Protected(false))
        let seen = Protected((files: 0, counts: Set<[UInt8]>()))
        let lock = Path.parent(of: try store.path("k")) + "/lock"
        let calls = SystemCalls { call in
            guard call == .fsync, isSlow.withLock({ $0 }) else { return nil }
            usleep(5000)
            seen.withLock { seen in
                seen.files += 1
                // After the last file, the writer that waited may be renaming.
                if seen.files <= length, let count = try? readBytes(lock) { seen.counts.insert(count) }
            }
            return nil
        }
        let writer = try store.backend(calls).lockbox()
        #expect(try writer.unarchiveObject(forKey: "k") == "v")
        isSlow.withLock { $0 = true }
        let group = DispatchGroup()
        Thread.detachNewThread(in: group) {
            #expect(throws: Never.self) {
                try writer.batch { batch in
                    for number in 0..<length { try batch.archiveObject(number, forKey: "\(number)") }
                }
            }
        }
        let file = try LockFile(store.folder(of: "k"))
        while try file.lock() {
            file.unlock()
            usleep(1000)
        }
        // Shorter than the batch, which sleeps for 3.2 seconds, and longer than 64 files take, also on a busy machine.
        let waiting = try store.backend(lockTimeout: .milliseconds(2500)).lockbox()
        #expect(lockboxError { try waiting.archiveObject("new", forKey: "k") } == nil)
        group.wait()
        let counts = seen.withLock { $0.counts }
        #expect(counts.count >= 10)
        #expect(counts.allSatisfy { $0[0].isMultiple(of: 2) }, "no rename is under way")
        #expect(try store.lockbox().allKeys().count == length + 1)
    }

    /// In the order of their coming, and no process twice while another waits.
    @Test(arguments: [true, false]) func nobodyIsPassedOver(sharing: Bool) throws {
        let shared = store.backend(lockTimeout: .seconds(20))
        let counts = Protected([Int](repeating: 0, count: 4))
        let isOver = Protected(false)
        let group = DispatchGroup()
        for number in 0..<4 {
            Thread.detachNewThread(in: group) { [store] in
                let backend = sharing ? shared : store.backend(lockTimeout: .seconds(20))
                let lockbox = try! backend.lockbox()
                while !isOver.withLock({ $0 }) {
                    #expect(throws: Never.self) { try lockbox.archiveObject("v", forKey: "k") }
                    counts.withLock { $0[number] += 1 }
                }
            }
        }
        while counts.withLock({ $0.reduce(0, +) }) < 400 { usleep(1000) }
        isOver.withLock { $0 = true }
        group.wait()
        let result = counts.withLock { $0 }
        // Half the mean, with room for a machine that does other things meanwhile.
        #expect(result.min()! * 4 * 4 >= result.reduce(0, +), "\(result)")
    }

    /// A store that is locked is said to be so at once.
    @Test(.needsKernelKeyring)
    func aReaderDoesNotWaitForTheHolderOfTheRoot() throws {
        let store = try TestStore()
        try store.backend().setUp(items: ["k": .always], scope: .user)
        defer { store.lockForEverybody() }
        try store.makeKernelStale()
        try store.storage().holdingLock(of: nil) {
            let reader = try store.backend(lockTimeout: .seconds(5)).lockbox()
            let start = ContinuousClock.now
            #expect(try reader.unarchiveObject(forKey: "k") == "old")
            #expect(try reader.allKeys() == ["k"])
            #expect(ContinuousClock.now - start < .seconds(2))
        }
    }
}

extension Thread {
    /// Not on one of Dispatch's threads, of which there may be too few.
    static func detachNewThread(in group: DispatchGroup, _ body: @escaping @Sendable () -> Void) {
        group.enter()
        detachNewThread {
            body()
            group.leave()
        }
    }
}
