import LockboxCore

/// The facts that a process knows of a store from the last keybag that it has unlocked. Neither a lock nor a keybag that it cannot open makes
/// it forget this.
struct TrustedKeybag: Sendable {
    /// A hash of the first key of ``Keybag/Contents/lineage``. Nil if only a slot for services was used.
    let lineage: [UInt8]?
    /// A hash of the unlock key of ``UnlockLevel/afterFirstUnlock``.
    let unlockKey: [UInt8]
    /// Whether this process has opened a keybag itself, and not only with what the kernel had.
    let isOwn: Bool
    let retired: UInt32
    let firstProtected: UInt32
    /// See ``leftovers(of:)``.
    let leftovers: [Leftover]

    /// Of the epochs that were retired, only what was left over then still is. About later ones nothing is known.
    func leftovers(of keybag: Keybag) -> [Leftover] {
        guard retired < keybag.epoch else { return leftovers }
        return leftovers + keybag.leftovers.compactMap { $0.after(retired) }
    }
}

/// The unwrapped keys of a keybag. Immutable but for ``checkedBy``: a changed keybag gets a new instance.
final class Keyring: Sendable {
    let storeID: StoreID
    let generation: UInt64
    /// The epoch of the keys that seal new items.
    let epoch: UInt32
    /// The kernel's record that this keyring was found to be the newest by. A new record has another serial.
    let checkedBy = Protected<Int32?>(nil)
    /// See ``Keybag/retired``.
    private let retired: UInt32
    let leftovers: [Leftover]
    /// The keybag's revision.
    let revision: RecordRevision

    /// The first eight characters of the store ID in base32. The names of the store's namespaces begin with it,
    /// which shows whether items and keybag belong together.
    let storeTag: String

    /// The names of the kernel's records of a user unlock. Computed once, because they are used at every
    /// access.
    let unlockNames: [(kind: SharedUnlock.KeyKind, name: String)]
    private let hasSlots: Bool
    private let firstProtected: UInt32
    let names: SecretKey
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
    ///
    /// - Parameter trusted: The state known of the store, if level 1 of the keybag was not opened: others can forge the rest.
    init(keybag: Keybag, keys: [Entry], trusted: TrustedKeybag? = nil, revision: RecordRevision = .absent)
        throws(RecordError)
    {
        guard let names = keys.first(where: { $0.id.role == .names })?.key else {
            throw .malformed("it contains no key for file names")
        }
        self.storeID = keybag.storeID
        self.generation = keybag.generation
        self.epoch = keybag.epoch
        self.retired = max(keybag.retired, trusted?.retired ?? 0)
        self.leftovers = trusted?.leftovers(of: keybag) ?? keybag.leftovers
        self.revision = revision
        self.storeTag = String(keybag.storeID.name.prefix(8))
        self.unlockNames = SharedUnlock.KeyKind.allCases.map { ($0, $0.name(keybag.storeID)) }
        self.hasSlots = !keybag.slots.isEmpty
        self.firstProtected = max(keybag.firstProtected, trusted?.firstProtected ?? 0)
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

    /// Returns the key that seals new items of a class.
    ///
    /// - Throws: ``RecordError/locked(_:)`` also if the device key alone opens what it seals, as a process that was killed while it
    ///   added the first slot began no epoch. The next unlock begins one.
    func sealingKey(_ accessibility: Accessibility) throws(RecordError) -> SecretKey {
        let role = KeyRole.classKey(accessibility)
        if role.level != nil, isFromBeforeSlots { throw .locked(accessibility) }
        return try key(role, epoch: epoch)
    }

    /// Whether new items would be sealed with keys from before the first slot.
    var isFromBeforeSlots: Bool { protection(ofEpoch: epoch) == .earlierThanSlots }

    /// Throws if an item must not be sealed with the keys of an epoch. Those of a retired one open nothing but leftovers.
    func checkEpoch(_ epoch: UInt32, of id: RecordID, in namespace: String?) throws(RecordError) {
        if epoch > retired { return }
        if leftovers(id, namespace).contains(where: { $0.contains(epoch) }) { return }
        throw holds(.metadata, epoch: epoch) ? .notAuthentic : .unknownKey
    }

    /// Returns the older epochs that an item may be sealed with, or those of a whole namespace.
    func olderEpochs(of id: RecordID?, in namespace: String?) -> ClosedRange<UInt32>? {
        var all = leftovers(id, namespace)
        if retired + 1 < epoch { all.append(retired + 1...epoch - 1) }
        guard let first = all.map(\.lowerBound).min(), let last = all.map(\.upperBound).max() else {
            return nil
        }
        return first...last
    }

    private func leftovers(_ id: RecordID?, _ namespace: String?) -> [ClosedRange<UInt32>] {
        if leftovers.isEmpty { return [] }
        let ids = [id, namespace.flatMap(Self.prefixID)].compactMap { $0.map(Leftover.start) }
        return leftovers.filter { ids.contains($0.id) }.map(\.epochs)
    }

    enum Protection { case none, slots, earlierThanSlots }

    /// The protection of the `whenUnlocked` key of an epoch. In a store without slots, the device key opens it.
    func protection(ofEpoch epoch: UInt32) -> Protection {
        if !hasSlots { return .none }
        return epoch < firstProtected ? .earlierThanSlots : .slots
    }

    /// Whether this is of a later keybag. One without slots, which anybody with the device key can forge, succeeds none that
    /// has some.
    func succeeds(_ keyring: Keyring) -> Bool {
        revision != keyring.revision && (hasSlots || !keyring.hasSlots)
    }

    /// Returns the key if it is open.
    func openKey(_ role: KeyRole, epoch: UInt32) -> SecretKey? {
        let id = KeyID(role, epoch)
        return keys.first { $0.id == id }?.key
    }

    /// Returns whether the keybag contains the key, open or locked.
    func holds(_ role: KeyRole, epoch: UInt32) -> Bool {
        let id = KeyID(role, epoch)
        return keys.contains { $0.id == id } || locked.contains(id)
    }

    /// Returns the open keys with the wanted roles.
    func keys(where isWanted: (KeyRole) -> Bool) -> [Entry] { keys.filter { isWanted($0.id.role) } }

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

    static func isNamespaceOfAnyStore(_ name: String) -> Bool { prefixID(ofNamespace: name) != nil }

    /// Returns the ID in the name of any store's namespace, or nil if it is none.
    static func prefixID(ofNamespace name: String) -> RecordID? {
        let parts = name.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].utf8.count == 8 else { return nil }
        return RecordID(name: String(parts[1]))
    }

    /// Returns the ID of an item's record.
    func itemID(_ key: ItemKey) -> RecordID {
        id(personal: .name, [key.prefix.canonical, key.key.canonical])
    }

    /// Authenticates the record of the highest generation seen. The key is that of the names because it never changes.
    func seenMAC(_ bytes: [UInt8]) -> [UInt8] { Sodium.hash(of: bytes, key: names, personal: .seen) }

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
