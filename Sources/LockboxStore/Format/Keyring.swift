@_spi(Extensions) import LockboxCore

/// The unwrapped keys of a keybag. Immutable but for ``checkedBy``: a changed keybag gets a new instance.
final class Keyring: Sendable {
    let storeID: StoreID
    let generation: UInt64
    /// The epoch of the keys that seal new items.
    let epoch: UInt32
    /// The memory's file by which this keyring was found to be the newest.
    let checkedBy = Protected<FileState?>(nil)
    /// In order. One, unless others could have forged it.
    let closings: [Closing]
    /// Where the keybag was read.
    let version: KeybagVersion
    var revision: RecordRevision { version.revision }

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
    /// - Parameters:
    ///   - closings: The closings that are known, if others could have forged the keybag's. By default, its own.
    ///   - firstProtected: The least number of the first epoch with slots.
    init(
        keybag: Keybag,
        keys: [Entry],
        closings: [Closing]? = nil,
        firstProtected: UInt32 = 0,
        version: KeybagVersion = KeybagVersion()
    ) throws(RecordError) {
        guard let names = keys.first(where: { $0.id.role == .names })?.key else {
            throw .malformed("it contains no key for file names")
        }
        self.storeID = keybag.storeID
        self.generation = keybag.generation
        self.epoch = keybag.epoch
        self.closings = closings ?? [keybag.closing]
        self.version = version
        self.storeTag = String(keybag.storeID.name.prefix(8))
        self.unlockNames = SharedUnlock.KeyKind.allCases.map { ($0, $0.name(keybag.storeID)) }
        self.hasSlots = !keybag.slots.isEmpty
        self.firstProtected = max(keybag.firstProtected, firstProtected)
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

    /// Returns what decides which items of an epoch open, or nil if all do.
    func closing(of epoch: UInt32) -> Closing? { closings.first { epoch <= $0.epoch } }

    /// The epochs before its own whose keys the keybag has.
    var formerEpochs: Set<UInt32> {
        Set(
            (keys.map(\.id) + locked).lazy.filter { $0.role != .names }.map(\.epoch).filter {
                $0 < self.epoch
            }
        )
    }

    enum Protection { case none, slots, earlierThanSlots }

    /// The protection of the `whenUnlocked` key of an epoch. In a store without slots, the device key opens it.
    func protection(ofEpoch epoch: UInt32) -> Protection {
        if !hasSlots { return .none }
        return epoch < firstProtected ? .earlierThanSlots : .slots
    }

    /// Whether this is of a later keybag. One without slots, which an attacker with the device key can forge, succeeds none
    /// that has some.
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

/// Where a keybag was read.
struct KeybagVersion: Sendable {
    /// The revision of the bytes that were opened.
    var revision = RecordRevision.absent
    /// The revision of the damaged or missing keybag in whose place the copy was opened. Nil if it was not.
    var inPlaceOf: RecordRevision?
    /// The records in whose place a copy was used.
    var damaged: [RecordName] = []

    /// The revisions that writers expect. No keybag is replaced while it has a copy.
    var expected: [RecordName: RecordRevision] {
        inPlaceOf.map { [.keybag: $0, RecordName.keybag.copy: revision] } ?? [.keybag: revision]
    }
}
