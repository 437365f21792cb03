import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Several processes at one store, and processes that die.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ProcessTests {
    /// All of them wait for the same instant. One keybag is made, and nobody's value is lost.
    @Test("Promise 8: many processes use one store at once") func twentyProcessesCreateOneStore() throws {
        for _ in 0..<5 {
            let store = try TestStore()
            let processes = try (0..<20).map { try TestProcess("use", store.directory, "\($0)") }
            processes.forEach { $0.endInput() }
            #expect(processes.map { $0.wait() } == [Int32](repeating: 0, count: 20))
            let lockbox = try store.lockbox()
            for number in 0..<20 {
                #expect(try lockbox.unarchiveObject(forKey: "own \(number)") == "of \(number)")
            }
            #expect(try lockbox.unarchiveObject(String.self, forKey: "shared")?.hasPrefix("of ") == true)
            #expect(try lockbox.allKeys().count == 21)
            #expect(try store.leftovers() == [])
        }
    }

    /// Acknowledged increments are counted. Each of the killed may have counted once more, unacknowledged.
    @Test func countersThatAreKilledLoseNothing() throws {
        let store = try TestStore()
        let logs = (0..<4).map { "\(store.directory).\($0)" }
        let processes = try zip(logs, ["1000000", "1000000", "500", "500"]).map {
            try TestProcess("count", store.directory, $1, $0)
        }
        processes.forEach { $0.endInput() }
        for (process, log) in zip(processes, logs).prefix(2) {
            while try !FileManager.default.fileExists(atPath: log) || readBytes(log).count < 20 {
                usleep(1000)
            }
            process.kill()
        }
        #expect(processes[..<2].map { $0.wait() } == [-SIGKILL, -SIGKILL])
        #expect(processes[2...].map { $0.wait() } == [0, 0])
        let acknowledged = try logs.map { try readBytes($0).count }
        #expect(acknowledged[2...] == [500, 500])
        let count = try #require(try store.lockbox().unarchiveObject(Int.self, forKey: "count"))
        let sum = acknowledged.reduce(0, +)
        #expect((sum...sum + 2).contains(count), "\(acknowledged)")
    }

    /// Killed before its N-th call that changes the disk, N = 1, 2, … until it gets through: while it makes the store, and while it
    /// replaces a value.
    @Test("Promise 2: a killed writer leaves the old value or the new one", arguments: [false, true])
    func aKilledWriterLosesNothingAndLeavesNothing(_ replaces: Bool) throws {
        var number = 0
        var status: Int32 = -SIGKILL
        var seen: Set<String?> = []
        while status == -SIGKILL {
            number += 1
            let store = try TestStore()
            if replaces {
                try store.lockbox().archiveObject("old", forKey: "key")
                try store.lockbox().archiveObject("bystander", forKey: "bystander")
            }
            status = try TestProcess("die", store.directory, "key", "new", "\(number)").wait()
            let lockbox = try store.lockbox()
            let value: String? = try lockbox.unarchiveObject(forKey: "key")
            seen.insert(value)
            #expect([replaces ? "old" : nil, "new"].contains(value), "call \(number)")
            if replaces {
                #expect(try lockbox.unarchiveObject(forKey: "bystander") == "bystander", "call \(number)")
            }
            for name in try store.leftovers() { try store.leaveBehind(name) }
            // The first of them may have to make the store.
            for _ in 0..<2 { try store.lockbox().archiveObject("newer", forKey: "key") }
            #expect(try store.leftovers() == [], "call \(number)")
            #expect(try store.lockbox().unarchiveObject(forKey: "key") == "newer", "call \(number)")
        }
        #expect(status == 0)
        #expect(number > (replaces ? 6 : 30))
        #expect(seen == [replaces ? "old" : nil, "new"])
    }

    /// Its lock goes with it; and while it lives, others wait only so long.
    @Test func theLockOfAnotherProcess() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("old", forKey: "key")
        let holder = try TestProcess("hold", store.directory, "key")
        holder.waitForOutput()
        expectError(.lockTimeout) { try lockbox.archiveObject("new", forKey: "key") }
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old", "readers need no lock")
        try store.lockbox("com.example.neighbor").archiveObject("new", forKey: "key")
        holder.kill()
        #expect(holder.wait() == -SIGKILL)
        try lockbox.archiveObject("new", forKey: "key")
        #expect(try lockbox.unarchiveObject(forKey: "key") == "new")
    }

    /// Put in its place between the opening of the lock file and the lock.
    @Test func aLockFileThatIsReplacedMeanwhileIsNotReliedOn() throws {
        let store = try TestStore()
        try store.lockbox().archiveObject("secret", forKey: "key")
        let path = Path.parent(of: try store.path("key")) + "/lock"
        let isReplaced = Protected(false)
        let calls = SystemCalls(fault: { call in
            guard call == .flock, !isReplaced.withLock({ $0 }) else { return nil }
            isReplaced.withLock { $0 = true }
            unlink(path)
            close(open(path, O_RDWR | O_CREAT, 0o600))
            return nil
        })
        let backend = store.backend(calls)
        let record = try backend.recordName(of: ItemKey(prefix: TestStore.prefix, key: "key"))
        try backend.storage.holdingLock(of: record.namespace) {
            #expect(isReplaced.withLock { $0 })
            let other = open(path, O_RDWR)
            defer { close(other) }
            #expect(flock(other, LOCK_EX | LOCK_NB) == -1, "it is held on a file that others no longer find")
        }
    }

    /// A child that was forked meanwhile has the lock's descriptor open, too; here, a duplicate of it.
    @Test func aLockIsReleasedAlsoIfItsDescriptorIsOpenElsewhere() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("old", forKey: "key")
        let duplicate = Protected<CInt>(-1)
        let path = Path.parent(of: try store.path("key")) + "/lock"
        let calls = SystemCalls(fault: { call in
            guard call == .rename, duplicate.withLock({ $0 }) < 0 else { return nil }
            let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
            let held = descriptors.first {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path
            }
            if let held, let number = CInt(held) { duplicate.withLock { $0 = dup(number) } }
            return nil
        })
        try store.backend(calls).lockbox().archiveObject("new", forKey: "key")
        #expect(duplicate.withLock { $0 } >= 0)
        try lockbox.archiveObject("newer", forKey: "key")
        close(duplicate.withLock { $0 })
    }
}
