import Foundation

import Lockbox
@testable import LockboxCore

/// Subscribes to changes, and prints what SECONDS cost in which nothing changes: microseconds of the processor, and context
/// switches. Then it makes a change, and ends with the status 2 if that is not noticed.
func idle(_ directory: String, _ seconds: UInt32) throws {
    let lockbox = try lockbox(directory)
    let changes = try lockbox.changes()
    let isNoticed = DispatchSemaphore(value: 0)
    let loop = Task {
        for try await change in changes where change == .item("k") || change == .everything {
            isNoticed.signal()
        }
    }
    usleep(300_000)  // until every thread has begun to wait
    let before = try Usage()
    sleep(seconds)
    let after = try Usage()
    print(after.microseconds - before.microseconds, after.switches - before.switches)
    try lockbox.archiveObject(1, forKey: "k")
    guard isNoticed.wait(timeout: .now() + 10) == .success else { exit(2) }
    loop.cancel()
}

private struct Usage {
    let microseconds: Int
    let switches: Int

    init() throws {
        var usage = rusage()
        // RUSAGE_SELF, which Glibc imports with another type.
        try require(getrusage(0, &usage) == 0, "getrusage: errno \(errno)")
        let times = [usage.ru_utime, usage.ru_stime]
        microseconds = times.reduce(0) { $0 + Int($1.tv_sec) * 1_000_000 + Int($1.tv_usec) }
        switches = Int(usage.ru_nvcsw) + Int(usage.ru_nivcsw)
    }
}
