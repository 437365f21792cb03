import LockboxCore
import LockboxFiles
import LockboxSodium

/// A kernel record that keeps a store unlocked for every process of the user: keys, sealed with the device key
/// and bound to the keybag's passcode. It opens nothing without the device key or with another passcode.
struct SharedUnlock {
    enum Level: UInt8, CaseIterable {
        /// The key derived from the device key and the passcode. It opens all classes.
        case unlocked = 1
        /// The keys of the `afterFirstUnlock` classes.
        case afterFirstUnlock = 2
    }

    let level: Level
    /// When the kernel removes the record, in seconds since 1970. 0 means never.
    let deadline: UInt64
    let keys: [Keyring.Entry]

    static let maximumLength = headerLength + maximumKeys * entryLength + SealedBox.overhead

    private static let headerLength = 16
    private static let entryLength = 8 + SecretKey.length
    private static let maximumKeys = 64

    /// The slot written for the key of ``Level/unlocked``, which has none in the keybag.
    static let passcodeSlot = Keyring.Slot(.names, 0)

    /// Identifies a record. While the keybag is rewritten, there are two for each level: one for the old
    /// keybag, one for the new.
    struct Place: Hashable, CaseIterable {
        let level: Level
        let isOfNextKeybag: Bool

        /// In the order of lookup: the record that opens most comes first. For `unlocked`, the current record
        /// is preferred, because it either fits the new keybag as well or opens nothing. For
        /// `afterFirstUnlock`, the next one is, because the current one lacks the keys of a new epoch.
        static let allCases = [
            Place(level: .unlocked, isOfNextKeybag: false), Place(level: .unlocked, isOfNextKeybag: true),
            Place(level: .afterFirstUnlock, isOfNextKeybag: true),
            Place(level: .afterFirstUnlock, isOfNextKeybag: false),
        ]

        /// Returns the name of a store's record in the kernel.
        func name(_ store: StoreID) -> String {
            let id = withUnsafeBytes(of: store) { id in RecordID { $0.copyMemory(from: id) }.name }
            let level = level == .unlocked ? "unlocked" : "after-first-unlock"
            return "lockbox:\(id):\(level)\(isOfNextKeybag ? ":next" : "")"
        }
    }

    // MARK: The record

    /// Seals the record into memory that is wiped after `body` returns.
    func withRecord<Result>(_ keybag: Keybag, _ device: SecretKey, _ body: (UnsafeRawBufferPointer) -> Result)
        -> Result
    {
        let length = Self.headerLength + SealedBox.overhead + keys.count * Self.entryLength
        return withUnsafeTemporaryAllocation(byteCount: length, alignment: 8) { record in
            defer { Sodium.wipe(record) }
            Sodium.wipe(record)
            var writer = ByteWriter(record)
            RecordKind.sharedUnlock.write(to: &writer)
            writer.write(level.rawValue)
            writer.skip(1)
            writer.write(deadline)
            let box = UnsafeMutableRawBufferPointer(rebasing: record[Self.headerLength...])
            var plaintext = ByteWriter(
                UnsafeMutableRawBufferPointer(rebasing: box[SealedBox.prefixLength...])
            )
            for (slot, key) in keys {
                plaintext.write(slot.role.number)
                plaintext.skip(3)
                plaintext.write(slot.epoch)
                key.withBytes { plaintext.write($0) }
            }
            Self.withData(record, keybag) { data, store in
                SealedBox.seal(
                    box,
                    authenticating: data,
                    context: store,
                    key: device,
                    personal: .sharedUnlock
                )
            }
            return body(UnsafeRawBufferPointer(record))
        }
    }

    /// Opens a record in place. Returns nil if it belongs to another store or passcode.
    init?(_ record: UnsafeMutableRawBufferPointer, _ level: Level, _ keybag: Keybag, _ device: SecretKey)
        throws
    {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard (try? RecordKind.sharedUnlock.check(&reader)) != nil, reader.read(UInt8.self) == level.rawValue,
            reader.skipZeros(1), let deadline = reader.read(UInt64.self)
        else { return nil }
        let box = UnsafeMutableRawBufferPointer(rebasing: record[Self.headerLength...])
        let plaintext = Self.withData(record, keybag) { data, store in
            SealedBox.open(
                box,
                authenticating: data,
                context: store,
                key: device,
                personal: .sharedUnlock
            )
        }
        guard let plaintext, plaintext.count % Self.entryLength == 0 else { return nil }
        var keys = ByteReader(UnsafeRawBufferPointer(plaintext))
        var entries: [Keyring.Entry] = []
        while keys.remaining > 0 {
            guard let role = keys.read(UInt8.self).flatMap(KeyRole.init(number:)), keys.skipZeros(3),
                let epoch = keys.read(UInt32.self), let key = keys.readBytes(SecretKey.length)
            else { return nil }
            entries.append((Keyring.Slot(role, epoch), try SecretKey { $0.copyMemory(from: key) }))
        }
        self.level = level
        self.deadline = deadline
        self.keys = entries
    }

    init(level: Level, deadline: UInt64, keys: [Keyring.Entry]) {
        self.level = level
        self.deadline = deadline
        self.keys = keys
    }

    /// Calls `body` with the data that the box authenticates: the header, the store ID and the passcode block.
    private static func withData<Result>(
        _ record: UnsafeMutableRawBufferPointer,
        _ keybag: Keybag,
        _ body: (_ data: UnsafeRawBufferPointer, _ store: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(byteCount: headerLength + 16 + PasscodeBlock.length, alignment: 8) {
            data in
            Sodium.wipe(data)
            var writer = ByteWriter(data)
            writer.write(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(record)[..<headerLength]))
            return withUnsafeBytes(of: keybag.storeID) { store in
                writer.write(store)
                keybag.passcode?.write(to: &writer)
                return body(UnsafeRawBufferPointer(data), store)
            }
        }
    }
}
