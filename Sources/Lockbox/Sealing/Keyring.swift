import Clibsodium

/// A keybag's keys, unwrapped. Immutable: a changed keybag makes a new one.
final class Keyring: Sendable {
    let storeID: StoreID
    let generation: UInt64
    /// The epoch that new items are sealed under.
    let epoch: UInt32

    /// The first eight characters of the store id in base32. It begins the name of every scope, and so shows
    /// whether a store's items and its keybag belong together.
    let storeTag: String

    private let names: SecretKey
    /// Few: looking through them costs less than a hash.
    private let keys: [(slot: Slot, key: SecretKey)]

    /// What a key is for: one number, as it is compared at every access.
    struct Slot: Hashable, Sendable {
        private let number: UInt64

        init(_ role: KeyRole, _ epoch: UInt32) { number = UInt64(epoch) << 8 | UInt64(role.number) }

        var isForNames: Bool { UInt8(truncatingIfNeeded: number) == KeyRole.names.number }
    }

    init(keybag: Keybag, keys: [(slot: Slot, key: SecretKey)]) throws(RecordFault) {
        guard Set(keys.map(\.slot)).count == keys.count else {
            throw .malformed("it holds two keys for one purpose")
        }
        guard let names = keys.first(where: { $0.slot.isForNames })?.key else {
            throw .malformed("it holds no key for names")
        }
        self.storeID = keybag.storeID
        self.generation = keybag.generation
        self.epoch = keybag.epoch
        self.storeTag = withUnsafeBytes(of: keybag.storeID) { id in
            String(RecordID { $0.copyMemory(from: id) }.name.prefix(8))
        }
        self.names = names
        self.keys = keys
    }

    /// - Throws: ``RecordFault/unknownKey`` if there is no such key, or not now.
    func key(_ role: KeyRole, epoch: UInt32) throws(RecordFault) -> SecretKey {
        let slot = Slot(role, epoch)
        guard let found = keys.first(where: { $0.slot == slot }) else { throw .unknownKey }
        return found.key
    }

    /// The name of the scope that holds a prefix's items.
    func scopeName(prefix: String) -> String {
        "\(storeTag)-\(id(personal: .scope, [prefix.canonical]).name)"
    }

    func isScopeName(_ name: String) -> Bool { name.hasPrefix("\(storeTag)-") }

    /// The id of an item's file.
    func itemID(_ key: ItemKey) -> RecordID {
        id(personal: .name, [key.prefix.canonical, key.key.canonical])
    }

    /// Hashes each text behind its length, so that no two lists of texts are one.
    private func id(personal: Personal, _ texts: [String]) -> RecordID {
        let length = texts.reduce(0) { $0 + 4 + $1.utf8.count }
        return withUnsafeTemporaryAllocation(byteCount: length, alignment: 4) { input in
            var writer = ByteWriter(input)
            for text in texts {
                writer.write(UInt32(text.utf8.count))
                writer.write(text)
            }
            return RecordID {
                Sodium.hash(UnsafeRawBufferPointer(input), key: names, personal: personal, into: $0)
            }
        }
    }
}
