import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// `limits wait`: writers behind a lock that somebody holds. A line for each: how long it waited, and how that ended.
func wait(_ directory: String, _ prefix: String, timeout: Int, threads: Int, backends: String) {
    let shared = backend(directory, timeout: timeout)
    let output = Protected(())
    inThreads(threads) { number in
        let backend = backends == "one" ? shared : backend(directory, timeout: timeout)
        let (time, outcome) = timed {
            try Lockbox(keyPrefix: prefix, backend: backend).archiveObject(
                limitsValue,
                forKey: "of \(number)"
            )
        }
        output.withLock { _ in report(time, outcome) }
    }
}

/// `limits look`: what waits for nobody, each in a backend of its own, as in a process that has just started.
func look(_ directory: String, _ prefix: String, count: Int) throws {
    func lockbox() throws -> Lockbox {
        try Lockbox(keyPrefix: prefix, backend: backend(directory, timeout: 1))
    }
    let operations: [(String, () throws -> Bool)] = [
        ("read", { try lockbox().unarchiveObject(Data.self, forKey: "0") == limitsValue }),
        ("read, absent", { try lockbox().unarchiveObject(Data.self, forKey: "absent") == nil }),
        ("attributes", { try lockbox().attributes(forKey: "0")?.size == limitsValue.count }),
        ("prefixes", { try lockbox().backend.prefixes().contains(prefix) }),
        ("list", { try lockbox().list().items.count == count }),
    ]
    for (name, operation) in operations {
        let (time, outcome) = timed { try require(operation(), "incomplete") }
        report(name, time, outcome)
    }
}

/// `limits remove`: removes all items, or those that have expired. Says how long that took and how it ended, how many files
/// were removed, and how many at most without taking a lock anew.
func remove(_ directory: String, _ prefix: String, isExpiredOnly: Bool) throws {
    let removals = Protected((sinceLock: 0, most: 0, all: 0))
    let calls = SystemCalls(fault: { call in
        removals.withLock { removals in
            if call == .flock { removals.sinceLock = 0 }
            if call == .unlink {
                removals.sinceLock += 1
                removals.all += 1
                removals.most = max(removals.most, removals.sinceLock)
            }
        }
        return nil
    })
    let lockbox = try Lockbox(keyPrefix: prefix, backend: backend(directory, calls, timeout: 30))
    report("ready")
    _ = readLine()
    let (time, outcome) = timed {
        if isExpiredOnly { try lockbox.removeExpired() } else { try lockbox.removeAllObjects() }
    }
    let (_, most, all) = removals.withLock { $0 }
    report(time, outcome, all, most)
}

/// How long it took in seconds, and "done" or the error.
private func timed(_ body: () throws -> Void) -> (Double, String) {
    let clock = ContinuousClock()
    let start = clock.now
    var outcome = "done"
    do { try body() } catch LockboxError.lockTimeout {
        outcome = "locked"
    } catch {
        outcome = "\(error)".replacing("\n", with: " ")
    }
    return (seconds(clock.now - start), outcome)
}
