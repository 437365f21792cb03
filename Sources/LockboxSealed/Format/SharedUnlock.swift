import LockboxCore
import LockboxSodium

/// A kernel record that keeps a store unlocked for every process of the user: an unlock key, sealed with the device key
/// and bound to the serial number of the kernel's key. It opens nothing without the device key, in a copy, or after the
/// next epoch has begun.
struct SharedUnlock {
    let level: UnlockLevel
    /// When the kernel removes the record, in seconds since 1970. 0 means never.
    let deadline: UInt64
    let key: SecretKey

    static let length = headerLength + SealedBox.overhead + SecretKey.length

    private static let headerLength = 16

    /// Identifies a record. While the keybag is rewritten, there are two for each level: one for the old
    /// keybag, one for the new.
    struct KeyKind: Hashable, CaseIterable {
        let level: UnlockLevel
        let isOfNextKeybag: Bool

        /// In the order of lookup: the record that opens most comes first.
        static let allCases = UnlockLevel.allCases.flatMap { level in
            [false, true].map { KeyKind(level: level, isOfNextKeybag: $0) }
        }

        /// Returns the name of a store's record in the kernel.
        func name(_ store: StoreID) -> String {
            let id = withUnsafeBytes(of: store) { id in RecordID { $0.copyMemory(from: id) }.name }
            let level = level == .unlocked ? "unlocked" : "after-first-unlock"
            return "lockbox:\(id):\(level)\(isOfNextKeybag ? ":next" : "")"
        }
    }

    init(level: UnlockLevel, deadline: UInt64, key: SecretKey) {
        self.level = level
        self.deadline = deadline
        self.key = key
    }

    // MARK: The record

    /// Returns the sealed record.
    func encoded(_ serial: Int32, _ store: StoreID, _ device: SecretKey) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.length)
        bytes.withUnsafeMutableBytes { record in
            var writer = ByteWriter(record)
            RecordKind.sharedUnlock.write(to: &writer)
            writer.write(level.rawValue)
            writer.skip(1)
            writer.write(deadline)
            writer.skip(SealedBox.prefixLength)
            key.withBytes { writer.write($0) }
            let box = UnsafeMutableRawBufferPointer(rebasing: record[Self.headerLength...])
            Self.withBinding(record, serial, store) { data, context in
                SealedBox.seal(
                    box,
                    authenticating: data,
                    context: context,
                    key: device,
                    personal: .sharedUnlock
                )
            }
        }
        return bytes
    }

    /// Opens a record in place. Returns nil if it belongs to another store, device key or serial number, or if its time
    /// is over.
    init?(
        _ record: UnsafeMutableRawBufferPointer,
        _ level: UnlockLevel,
        _ serial: Int32,
        _ store: StoreID,
        _ device: SecretKey,
        now: UInt64
    ) throws {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard record.count == Self.length, (try? RecordKind.sharedUnlock.check(&reader)) != nil,
            reader.read(UInt8.self) == level.rawValue, reader.skipZeros(1),
            let deadline = reader.read(UInt64.self)
        else { return nil }
        let box = UnsafeMutableRawBufferPointer(rebasing: record[Self.headerLength...])
        let plaintext = Self.withBinding(record, serial, store) { data, context in
            SealedBox.open(box, authenticating: data, context: context, key: device, personal: .sharedUnlock)
        }
        guard let plaintext, deadline == 0 || now < deadline else { return nil }
        self.level = level
        self.deadline = deadline
        key = try SecretKey { $0.copyMemory(from: UnsafeRawBufferPointer(plaintext)) }
    }

    /// Calls `body` with what the box authenticates, the header and the serial number, and with the store ID.
    private static func withBinding<Result>(
        _ record: UnsafeMutableRawBufferPointer,
        _ serial: Int32,
        _ store: StoreID,
        _ body: (_ data: UnsafeRawBufferPointer, _ context: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let serial = withUnsafeBytes(of: UInt32(bitPattern: serial).littleEndian, Array.init)
        let data = Array(record[..<headerLength]) + serial
        return data.withUnsafeBytes { data in withUnsafeBytes(of: store) { body(data, $0) } }
    }
}
