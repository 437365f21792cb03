import Lockbox
@testable import LockboxStore

extension SealedBackend {
    /// Overwrites an item's record.
    func damage(_ key: ItemKey) throws {
        let record = try record(of: key)
        _ = try storage.commit([.put(record, [UInt8](repeating: 1, count: 300))], expecting: [:])
    }
}
