import LockboxCore
import LockboxSodium

/// A keybag's keys, unwrapped. Immutable: a changed keybag makes a new one.
final class Keyring: Sendable {
    let storeID: StoreID
    let generation: UInt64
    /// The epoch that new items are sealed under.
    let epoch: UInt32
    /// Of the keybag.
    let revision: RecordRevision

    /// The first eight characters of the store id in base32. It begins the name of every namespace, and so shows
    /// whether a store's items and its keybag belong together.
    let storeTag: String

    /// The kernel's names for what the user has unlocked; made once, as they are asked for at every access.
    let unlockNames: [(place: SharedUnlock.Place, name: String)]
    private let names: SecretKey
    /// Few: looking through them costs less than a hash.
    private let keys: [Entry]
    /// Those of the keybag's that are not among ``keys``.
    private let locked: [Slot]

    typealias Entry = (slot: Slot, key: SecretKey)

    /// What a key is for: one number, as it is compared at every access.
    struct Slot: Hashable, Sendable {
        private let number: UInt64

        init(_ role: KeyRole, _ epoch: UInt32) { number = UInt64(epoch) << 8 | UInt64(role.number) }

        var role: KeyRole { KeyRole(number: UInt8(truncatingIfNeeded: number))! }
        var epoch: UInt32 { UInt32(truncatingIfNeeded: number >> 8) }
    }

    /// The given keys of a keybag; the others are locked.
    init(keybag: Keybag, keys: [Entry], revision: RecordRevision = .absent) throws(RecordError) {
        guard let names = keys.first(where: { $0.slot.role == .names })?.key else {
            throw .malformed("it holds no key for names")
        }
        self.storeID = keybag.storeID
        self.generation = keybag.generation
        self.epoch = keybag.epoch
        self.revision = revision
        self.storeTag = withUnsafeBytes(of: keybag.storeID) { id in
            String(RecordID { $0.copyMemory(from: id) }.name.prefix(8))
        }
        self.unlockNames = SharedUnlock.Place.allCases.map { ($0, $0.name(keybag.storeID)) }
        self.names = names
        self.keys = keys
        self.locked = keybag.entries.map(\.slot).filter { slot in !keys.contains { $0.slot == slot } }
    }

    /// - Throws: ``RecordError/unknownKey`` if the keybag has no such key; ``RecordError/locked(_:)`` if it has.
    func key(_ role: KeyRole, epoch: UInt32) throws(RecordError) -> SecretKey {
        let slot = Slot(role, epoch)
        if let found = keys.first(where: { $0.slot == slot }) { return found.key }
        if case .classKey(let accessibility) = role, locked.contains(slot) { throw .locked(accessibility) }
        throw .unknownKey
    }

    /// Whether the keybag has such a key, open or locked.
    func holds(_ role: KeyRole, epoch: UInt32) -> Bool {
        let slot = Slot(role, epoch)
        return keys.contains { $0.slot == slot } || locked.contains(slot)
    }

    /// The keys that are open, but for those whose role is not wanted.
    func keys(where isWanted: (KeyRole) -> Bool) -> [Entry] { keys.filter { isWanted($0.slot.role) } }

    /// Whether all open keys are locked into RAM.
    var isLockedIntoMemory: Bool { keys.allSatisfy(\.key.isLockedIntoMemory) }

    /// Whether every key of the keybag is open.
    var isComplete: Bool { locked.isEmpty }

    /// Whether items of the class can be read and written.
    func isOpen(_ accessibility: Accessibility) -> Bool {
        (try? key(.classKey(accessibility), epoch: epoch)) != nil
    }

    /// The name of the namespace that holds a prefix's items.
    func namespace(ofPrefix prefix: String) -> String {
        "\(storeTag)-\(id(personal: .scope, [prefix.canonical]).name)"
    }

    /// Whether the namespace is one of this store's.
    func owns(namespace name: String) -> Bool {
        name.hasPrefix("\(storeTag)-") && Self.isNamespaceOfAnyStore(name)
    }

    static func isNamespaceOfAnyStore(_ name: String) -> Bool {
        let parts = name.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.count == 2 && parts[0].utf8.count == 8 && RecordID(name: String(parts[1])) != nil
    }

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
