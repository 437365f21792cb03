@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

extension SealedBackend {
    /// Returns the name of an item's record, existing or not. Creates the store if there is none.
    func recordName(of key: ItemKey) throws -> RecordName {
        reader.itemRecord(of: key, try keyStore.currentKeyring(creating: true)).name
    }
}

extension SealedBackend {
    /// What unlocks the store.
    var slots: [UnlockSlot] { get throws { try status()?.slots ?? [] } }
}
