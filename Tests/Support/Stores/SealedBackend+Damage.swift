import Lockbox
@_spi(Extensions) @testable import LockboxStore

extension SealedBackend {
    /// The folder of a store in files.
    var directory: String { (storage as! FileStorage).directory }

    /// Overwrites an item's record.
    func damage(_ key: ItemKey) throws {
        let record = try recordName(of: key)
        _ = try storage.commit([.put(record, [UInt8](repeating: 1, count: 300))], expecting: [:])
    }
}
