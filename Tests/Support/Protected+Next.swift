import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

extension Protected<Int> {
    /// Counts one more.
    func next() -> Int {
        withLock {
            $0 += 1
            return $0
        }
    }
}

extension Protected<Bool> {
    /// Sets it. Returns whether it was not set before.
    func raise() -> Bool {
        withLock { isSet in
            defer { isSet = true }
            return !isSet
        }
    }
}
