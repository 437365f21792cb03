@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

extension KeybagContents {
    /// Returns a record that lists slots as they are, with what was sealed to them before. Whoever has the device key can write it.
    func encoded(deviceKey: SecretKey, listing slots: [KeybagSlot]) throws -> [UInt8] {
        var forged = self
        forged.slots = try slots.map { slot in
            Slot(
                slot: slot,
                authentication: try slot.grants.reduce(into: [:]) { $0[$1.level] = try .random() }
            )
        }
        return try forged.record(listing: slots, deviceKey: deviceKey)
    }
}

extension KeybagContents {
    /// The next version of a keybag that is completely open, or nil if it is not.
    init?(after opened: OpenedKeybag) throws {
        try self.init(after: opened.keybag, unlockKeys: opened.unlockKeys)
    }
}
