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
