import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Status 0 if this process has migrated everything, 4 if another had, 2 if it was neither.
func migrate(_ directory: String) throws -> Int32 {
    let items = (0..<50).map { Migration.Item.string("k\($0)") }
    let outcomes = try lockbox(directory).migrate(Migration("once", items: items)).outcomes.map(\.outcome)
    if outcomes.allSatisfy({ $0 == .migrated }) { return 0 }
    return outcomes.allSatisfy { $0 == .migratedBefore } ? 4 : 2
}
