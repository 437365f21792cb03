@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

extension KeybagContents {
    /// Returns a record that lists slots as they are, with what was sealed to them before. Whoever has the device key can write it.
    func encoded(deviceKey: SecretKey, listing slots: [KeybagSlot]) throws -> [UInt8] {
        let ids = keys.map(\.id)
        let vaults = Keybag.vaultLengths(ids, slots)
        let open = keys.filter { $0.id.role.level == nil }
        let start = KeybagHeader.length + SealedBox.prefixLength
        let length =
            KeybagHeader.length + SealedBox.overhead + KeybagHeader.fixedLength
            + ids.count * KeybagHeader.keyIDLength + open.count * SecretKey.length
            + leftovers.count * Leftover.length + slots.reduce(0) { $0 + $1.length }
            + vaults.reduce(0) { $0 + $1.1 }
        var record = [UInt8](repeating: 0, count: length)
        try record.withUnsafeMutableBytes { record in
            var writer = ByteWriter(record)
            KeybagHeader(generation: generation, storeID: storeID).write(to: &writer)
            writer.skip(start - writer.offset)
            writer.write(epoch)
            writer.write(UInt16(slots.count))
            writer.write(UInt16(ids.count))
            writer.write(max(1, firstProtected))
            writer.skip(SecretKey.length - 4)
            writer.write(retired)
            writer.write(UInt32(leftovers.count))
            for id in ids {
                writer.write(id.role.number)
                writer.write(id.role.level?.rawValue ?? 0)
                writer.skip(2)
                writer.write(id.epoch)
            }
            for (_, key) in open { writer.write(key) }
            for leftover in leftovers { leftover.write(to: &writer) }
            for slot in slots { slot.write(to: &writer) }
            for (level, length) in vaults {
                let data = KeybagHeader.digest(
                    KeybagHeader.bytes(of: record),
                    UnsafeRawBufferPointer(record)[start..<writer.offset]
                )
                let end = writer.offset + length
                let box = record.part(writer.offset..<end)
                var vault = ByteWriter(box.part(SealedBox.prefixLength...))
                if level == .unlocked {
                    vault.write(unlockKeys[.afterFirstUnlock]!)
                    for key in lineage { vault.write(key) }
                    for _ in slots.flatMap(\.grants) { vault.write(try .random()) }
                }
                for (id, key) in keys where id.role.level == level { vault.write(key) }
                SealedBox.seal(box, authenticating: data, with: level.boxKey(unlockKeys[level]!, storeID))
                writer.skip(length)
            }
            KeybagHeader.seal(record, deviceKey)
        }
        return record
    }
}

extension KeybagContents {
    /// The next version of a keybag that is completely open, or nil if it is not.
    init?(after opened: OpenedKeybag) throws {
        try self.init(after: opened.keybag, unlockKeys: opened.unlockKeys)
    }
}
