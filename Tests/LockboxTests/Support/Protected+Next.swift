import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

extension Protected<Int> {
    /// Counts one more.
    func next() -> Int {
        withLock {
            $0 += 1
            return $0
        }
    }
}
