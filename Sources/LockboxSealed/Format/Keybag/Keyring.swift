import LockboxCore
import LockboxSodium

/// The unwrapped keys of a keybag. Immutable: a changed keybag gets a new instance.
final class Keyring: Sendable {
    let storeID: StoreID
    let generation: UInt64
    /// The epoch of the keys that seal new items.
    let epoch: UInt32
    /// The keybag's revision.
    let revision: RecordRevision

    /// The first eight characters of the store ID in base32. The names of the store's namespaces begin with it,
    /// which shows whether items and keybag belong together.
    let storeTag: String

    /// The names of the kernel's records of a user unlock. Computed once, because they are used at every
    /// access.
    let unlockNames: [(kind: SharedUnlock.KeyKind, name: String)]
    private let names: SecretKey
    /// An array, because there are few: searching it costs less than hashing.
    private let keys: [Entry]
    /// The keys of the keybag that are not open.
    private let locked: [KeyID]

    typealias Entry = (id: KeyID, key: SecretKey)

    /// The purpose and the epoch of a key, packed into one number because it is compared at every access.
    struct KeyID: Hashable, Sendable {
        private let number: UInt64

        init(_ role: KeyRole, _ epoch: UInt32) { number = UInt64(epoch) << 8 | UInt64(role.number) }

        var role: KeyRole { KeyRole(number: UInt8(truncatingIfNeeded: number))! }
        var epoch: UInt32 { UInt32(truncatingIfNeeded: number >> 8) }
    }

    /// Creates a keyring with the given keys of a keybag. The others are locked.
    init(keybag: Keybag, keys: [Entry], revision: RecordRevision = .absent) throws(RecordError) {
        guard let names = keys.first(where: { $0.id.role == .names })?.key else {
            throw .malformed("it contains no key for file names")
        }
        self.storeID = keybag.storeID
        self.generation = keybag.generation
        self.epoch = keybag.epoch
        self.revision = revision
        self.storeTag = withUnsafeBytes(of: keybag.storeID) { id in
            String(RecordID { $0.copyMemory(from: id) }.name.prefix(8))
        }
        self.unlockNames = SharedUnlock.KeyKind.allCases.map { ($0, $0.name(keybag.storeID)) }
        self.names = names
        self.keys = keys
        self.locked = keybag.keyIDs.filter { id in !keys.contains { $0.id == id } }
    }

    /// - Throws: ``RecordError/locked(_:)`` if the key is locked; ``RecordError/unknownKey`` or
    ///   ``RecordError/laterEpoch`` if the keybag does not contain it.
    func key(_ role: KeyRole, epoch: UInt32) throws(RecordError) -> SecretKey {
        let id = KeyID(role, epoch)
        if let found = keys.first(where: { $0.id == id }) { return found.key }
        if case .classKey(let accessibility) = role, locked.contains(id) { throw .locked(accessibility) }
        throw epoch > self.epoch ? .laterEpoch : .unknownKey
    }

    /// Returns whether the keybag contains the key, open or locked.
    func holds(_ role: KeyRole, epoch: UInt32) -> Bool {
        let id = KeyID(role, epoch)
        return keys.contains { $0.id == id } || locked.contains(id)
    }

    /// Returns the open keys with the wanted roles.
    func keys(where isWanted: (KeyRole) -> Bool) -> [Entry] { keys.filter { isWanted($0.id.role) } }

    /// Whether all open keys are locked into RAM.
    var isLockedIntoMemory: Bool { keys.allSatisfy(\.key.isLockedIntoMemory) }

    /// Whether every key of the keybag is open.
    var isComplete: Bool { locked.isEmpty }

    /// Returns whether items of the class can be read and written.
    func isOpen(_ accessibility: Accessibility) -> Bool {
        (try? key(.classKey(accessibility), epoch: epoch)) != nil
    }

    /// Returns whether the newest keys of the level are open.
    func isOpen(level: UnlockLevel) -> Bool { isOpen(level == .unlocked ? .whenUnlocked : .afterFirstUnlock) }

    /// Returns the name of the namespace that holds a prefix's items.
    func namespace(ofPrefix prefix: String) -> String {
        "\(storeTag)-\(id(personal: .scope, [prefix.canonical]).name)"
    }

    /// Returns whether the namespace belongs to this store.
    func owns(namespace name: String) -> Bool {
        name.hasPrefix("\(storeTag)-") && Self.isNamespaceOfAnyStore(name)
    }

    static func isNamespaceOfAnyStore(_ name: String) -> Bool {
        let parts = name.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.count == 2 && parts[0].utf8.count == 8 && RecordID(name: String(parts[1])) != nil
    }

    /// Returns the ID of an item's record.
    func itemID(_ key: ItemKey) -> RecordID {
        id(personal: .name, [key.prefix.canonical, key.key.canonical])
    }

    /// Authenticates the record of the highest generation seen. The key is that of the names because it never changes.
    func seenMAC(_ bytes: [UInt8]) -> [UInt8] {
        var mac = [UInt8](repeating: 0, count: 32)
        bytes.withUnsafeBytes { bytes in
            mac.withUnsafeMutableBytes { Sodium.hash(bytes, key: names, personal: .seen, into: $0) }
        }
        return mac
    }

    /// Hashes the texts, each preceded by its length, so that different lists never have the same input.
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
