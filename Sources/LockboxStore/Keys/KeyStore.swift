import LockboxCore
import LockboxPlatform

/// A store's keys. Decides which of them are open.
///
/// Either nothing has been read yet, or the keybag has been, with the keys that this process has unlocked itself: ``opened``, which
/// ``keep(_:)`` alone sets. In addition, each access asks the kernel for the keys that the user has unlocked for every process;
/// ``userRecords`` only caches what the kernel's records open.
///
/// If another process replaces the keybag, it is read again when an item needs it, when a commit finds another
/// revision than expected, and when the keys are changed.
final class KeyStore: Sendable {
    let storage: any RecordStorage
    let device: StoredDeviceKey
    let userUnlock: UserUnlock
    let requirements: StoreRequirements
    /// If nil, this program has none.
    let memory: StoreMemory?
    let counter: (any GenerationCounter)?
    private let known = Protected<OpenedKeybag?>(nil)
    let userRecords = Protected<UserRecords?>(nil)
    let trusted = Protected<TrustedKeybag?>(nil)
    /// Manifests that were read, by the hash of the first record.
    let manifests = Protected<[RecordHash: Manifest]>([:])
    /// The highest generation and epoch that this process has read or written.
    let highest = Protected<StoreMemory.Numbers?>(nil)
    /// Held while ``opened`` is replaced, so that a read of the keybag cannot undo a `lock()`. Lock order:
    /// after a namespace's lock, before the keybag's lock.
    let keybagMutex = Lock(isRecursive: true)
    /// When a thread last found that the storage is not reachable.
    private let outage = Protected<(error: LockboxError, end: Duration)?>(nil)
    /// Counts the runs of Argon2id, for tests.
    let derivations = Protected(0)

    init(
        storage: any RecordStorage,
        deviceKey: DeviceKeySource,
        requires requirements: StoreRequirements = StoreRequirements(),
        kernel: KernelKeyring = KernelKeyring(),
        memory: StoreMemory? = nil,
        counter: (any GenerationCounter)? = nil
    ) {
        self.storage = storage
        self.counter = counter
        self.requirements = requirements
        device = StoredDeviceKey(storage: storage, source: deviceKey)
        userUnlock = UserUnlock(kernel: kernel)
        self.memory = memory
    }

    /// The keybag that was read last, or nil in a forked child, which has to read it again, and to unlock the store itself.
    var opened: OpenedKeybag? { known.withLock { $0.flatMap { $0.isWiped ? nil : $0 } } }

    /// Replaces the keybag that was read last, or what is open of it. The caller holds ``keybagMutex``.
    func keep(_ opened: OpenedKeybag) { known.withLock { $0 = opened } }

    // MARK: The keys

    /// Returns the store's keys, or nil if there is no store and `creating` is false.
    func keyring(creating: Bool) throws -> Keyring? {
        if let opened { return try withUserUnlock(opened, isCurrent: false).keyring }
        if let own = try ownIfMade() { return try withUserUnlock(own).keyring }
        return creating ? try create(.all).keyring : nil
    }

    /// Returns the store's keys according to its current keybag.
    ///
    /// - Parameter creating: Whether to create a store if there is none. If false, that is an error.
    func currentKeyring(creating: Bool = false) throws -> Keyring {
        if creating { _ = try keyring(creating: true) }
        return try current().keyring
    }

    func current() throws -> OpenedKeybag { try withUserUnlock(own()) }

    /// Like ``keyring(creating:)``, but always reads and checks the keybag and the device key.
    func checkedKeyring() throws -> Keyring? {
        if opened == nil { return try keyring(creating: false) }
        guard let opened = try load() else { throw keybagIsMissing }
        return try withUserUnlock(opened).keyring
    }

    /// Throws if the store is gone or has been replaced by another one.
    func checkIsThere() throws { _ = try own() }

    /// The same as ``own()``, or nil if there is no store. What has not been read before is read once.
    func ownIfMade() throws -> OpenedKeybag? {
        if opened != nil { return try own() }
        // Another thread may have read it meanwhile.
        if let own = try oneByOne({ try opened ?? loadIfMade(.all) }) { return own }
        if requirements.identity != nil { throw notMet(noStore) }
        return nil
    }

    /// Returns the current keybag with the keys that this process has unlocked itself.
    func own() throws -> OpenedKeybag {
        let revision = try keybagRevision()
        func known() -> OpenedKeybag? {
            guard let opened, opened.keyring.revision == revision, isNewest(opened) else { return nil }
            return opened
        }
        if let opened = known() { return opened }
        return try oneByOne {
            // Another thread may have read it meanwhile.
            if let opened = known() { return opened }
            guard let opened = try load() else { throw keybagIsMissing }
            return opened
        }
    }

    /// Returns the keys to write with: others, if another process of the user has changed them since these were read. An attacker
    /// may have put the keybag of these back meanwhile, which is then an error.
    func newest(_ keyring: Keyring) throws -> Keyring {
        let state = memory?.state
        let isChecked = state == nil || state == keyring.checkedBy.withLock { $0 }
        let remembered = isChecked ? nil : memory?.entry(of: keyring.storeID)?.numbers
        let latest = [highest.withLock { $0 }, remembered].compactMap { $0?.generation }
        if latest.allSatisfy({ $0 <= keyring.generation }) {
            keyring.checkedBy.withLock { $0 = state }
            return keyring
        }
        guard let opened = try load() else { throw keybagIsMissing }
        return try withUserUnlock(opened).keyring
    }

    /// Lets one thread at a time read the keybag. Those that waited for one that found the storage not reachable fail as it
    /// did, and do not each wait as long again.
    private func oneByOne<Result>(_ read: () throws -> Result) throws -> Result {
        let start = world.uptime
        return try keybagMutex.withLock {
            if let outage = outage.withLock({ $0 }), outage.end > start { throw outage.error }
            do { return try read() } catch let error as LockboxError where error.code == .notReachable {
                outage.withLock { $0 = (error, world.uptime) }
                throw error
            }
        }
    }

    // MARK: The keybag

    static let keybagRecord = RecordName.keybag

    func keybagRevision() throws -> RecordRevision {
        try storage.revision(of: Self.keybagRecord, maximum: KeybagHeader.maximumRecordLength)
    }

    /// The checks of a keybag before it is used. One that was not checked for everything is only there to be replaced,
    /// and is not kept in memory.
    enum Check {
        /// The latest one seen, and what this program requires.
        case all
        /// It may lack the slot that is about to be added.
        case exceptProtection
        /// It may be an older one, which is about to be accepted.
        case exceptRollback
    }

    /// Reads the keybag. Keys that are open in this process stay open, even if the slot that opened them is gone. Locked
    /// ones are opened if `slotKeys`, or the ones already in memory, fit.
    @discardableResult
    func load(slotKeys: SlotKeys? = nil, _ check: Check = .all) throws -> OpenedKeybag? {
        try oneByOne {
            var conflicts = ConflictLimit()
            while true {
                guard let (keybag, revision) = try readKeybag() else { return nil }
                let before = opened
                if let before, before.keybag.storeID != keybag.storeID {
                    throw LockboxError.storeReplaced(location: keybagLocation)
                }
                if check != .exceptRollback, let error = try refusal(of: keybag) {
                    // Unless another process has just replaced it.
                    if try keybagRevision() != revision {
                        try conflicts.check(Self.keybagRecord, storage)
                        continue
                    }
                    throw error
                }
                try checkRequirements(keybag, check)
                let opened = try mappingErrors(of: Self.keybagRecord) {
                    try open(keybag, revision, slotKeys, before)
                }
                try checkItems(belongTo: opened.keyring)
                if check != .exceptRollback { learn(from: opened) }
                if check == .all {
                    note(StoreMemory.Numbers(keybag))
                    if opened.isComplete { remember(keybag) }
                    keep(opened)
                }
                return opened
            }
        }
    }

    private func open(
        _ keybag: Keybag,
        _ revision: RecordRevision,
        _ given: SlotKeys?,
        _ before: OpenedKeybag?
    ) throws -> OpenedKeybag {
        let slotKeys = [given, before?.slotKeys].compactMap { $0 }.first { keys in
            keybag.slots.contains { $0.id == keys.slot }
        }
        let contents = try openContents(keybag, slotKeys, before)
        let locked = Set(keybag.keyIDs).subtracting(contents.keys.map(\.id))
        var kept = before?.keyring.keys { _ in true }.filter { locked.contains($0.id) } ?? []
        // An attacker with the device key can forge a keybag without slots, whose keys have the IDs of the owner's.
        if before?.keybag.slots.isEmpty ?? false, !keybag.slots.isEmpty { kept = [] }
        return try OpenedKeybag(
            keybag,
            contents.keys + kept,
            unlockKeys: contents.unlockKeys,
            isComplete: contents.isComplete,
            slotKeys: slotKeys,
            trusted: contents.isComplete ? nil : trusted.withLock { $0 },
            revision: revision
        )
    }

    /// If no slot key fits, tries the unlock keys from before: this process itself may have removed the slot that opened
    /// them.
    private func openContents(_ keybag: Keybag, _ slotKeys: SlotKeys?, _ before: OpenedKeybag?) throws
        -> Keybag.Contents
    {
        let unlockKeys = try keybag.unlockKeys(with: slotKeys)
        // The device key opens those of a keybag without slots, for everybody who has it.
        if unlockKeys.isEmpty, let before, !before.keybag.slots.isEmpty,
            let key = before.unlockKeys[.unlocked]
        {
            do { return try keybag.open([.unlocked: key]) } catch RecordError.notAuthentic {}
        }
        return try keybag.open(unlockKeys)
    }

    /// Reads the keybag and the device key. If the device key does not fit, another process may have replaced both in
    /// between.
    private func readKeybag() throws -> (Keybag, RecordRevision)? {
        var device: StoredDeviceKey.Candidates
        do { device = try self.device.read() } catch is LockboxError {
            // A store that is not there has no device key either. Another process may have made both in between.
            if try keybagRevision() == .absent { return nil }
            device = try self.device.read()
        }
        while true {
            do { return try readKeybag(device) } catch RecordError.wrongDeviceKey {
                let again = try self.device.read()
                if again.revision == device.revision {
                    throw device.error ?? LockboxError.deviceKeyMismatch(source: self.device.location)
                }
                device = again
            }
        }
    }

    private func readKeybag(_ device: StoredDeviceKey.Candidates) throws -> (Keybag, RecordRevision)? {
        let length = KeybagHeader.maximumRecordLength
        do {
            return try storage.read(Self.keybagRecord, atLeast: length, maximum: length) {
                let revision = $0.revision  // of the bytes before they are opened in place
                return (try Keybag($0.bytes, deviceKeys: device.keys), revision)
            }
        } catch let error as RecordError where error != .wrongDeviceKey {
            throw error.lockboxError(keybagSubject)
        }
    }

    /// The identity that the keybag states. Not authenticated: it takes no device key.
    func storeIDInHeader() throws -> StoreID? {
        let length = KeybagHeader.maximumRecordLength
        return try storage.read(Self.keybagRecord, atLeast: KeybagHeader.length, maximum: length) {
            try KeybagHeader(UnsafeRawBufferPointer($0.bytes)).storeID
        }
    }

    /// Creates a new store's keys, unless another process creates them first.
    func create(_ check: Check) throws -> OpenedKeybag {
        try keybagMutex.withLock {
            do { try checkCanBeMade(check) } catch {
                // Another process may have made it meanwhile.
                if let opened = try loadIfMade(check) { return opened }
                throw error
            }
            var lock = try storage.lock(nil)
            defer { lock?.release() }
            var conflicts = ConflictLimit()
            while true {
                if let opened = try loadIfMade(check) { return opened }
                // The one before may have been lost.
                if lock == nil { lock = try storage.lock(nil) }
                if let device = try device.make(&lock) {
                    let keybag = try KeybagContents().encoded(deviceKey: device.key)
                    let outcome = try storage.commit(
                        device.changes + [.put(Self.keybagRecord, keybag)],
                        expecting: device.expecting.merging([Self.keybagRecord: .absent]) { $1 },
                        lock: &lock
                    )
                    if case .unknown(let error) = outcome { throw error }
                    if case .committed = outcome { continue }
                }
                try conflicts.check(Self.keybagRecord, storage)
            }
        }
    }

    /// Before anything is changed. What another program keeps in the folder is not Lockbox's, and must not look as if it were.
    private func checkCanBeMade(_ check: Check) throws {
        if requirements.identity != nil || check == .all && requirements.protection != .none {
            throw notMet(noStore)
        }
        let strange =
            try storage.findings().first { $0.kind != .leftover }?.location ?? storage.namespaces().first
        guard let strange else { return }
        throw LockboxError.invalidLocation(
            location: Path.parent(of: keybagLocation),
            reason:
                "it has no store but \(Path.name(of: strange)), and a store is made only in a new or empty folder; name another one"
        )
    }

    // MARK: Requirements

    /// Checks a keybag that was read.
    private func checkRequirements(_ keybag: Keybag, _ check: Check) throws {
        if let identity = requirements.identity, !keybag.has(identity: identity) {
            let reason =
                keybag.owner.identity == identity
                ? "its owner has not signed it" : "its identity is \(keybag.owner.identity)"
            throw notMet("\(reason), and this program requires \(identity)")
        }
        // A program that requires an identity was set up for a store that had its slots: one without them is a forgery.
        if check == .exceptProtection, requirements.identity == nil { return }
        try checkProtection(keybag.slots)
    }

    /// Also of a keybag that is to be written.
    func checkProtection(_ slots: [KeybagSlot]) throws {
        if let violation = requirements.violation(slots) { throw notMet(violation) }
    }

    private var noStore: String {
        requirements.identity.map { "it does not exist, and this program requires the store \($0)" }
            ?? "there is no store, and this program requires one with a passcode or slot; set a passcode or add a recovery "
            + "code to create it"
    }

    func notMet(_ reason: String) -> LockboxError {
        .requirementNotMet(record: keybagSubject, reason: reason)
    }

    // MARK: Damaged and replaced stores

    /// Reads the keybag; returns nil if there is no store.
    func loadIfMade(_ check: Check) throws -> OpenedKeybag? {
        if let opened = try load(check) { return opened }
        guard try hasItems() else {
            if check != .exceptRollback { try checkNothingWasThere() }
            return nil
        }
        // The keybag is written before the first item: another process may have just created both.
        if let opened = try load(check) { return opened }
        throw keybagIsMissing
    }

    /// A store with items but without a keybag is damaged, not new.
    private func hasItems() throws -> Bool {
        try storage.namespaces().contains(where: Keyring.isNamespaceOfAnyStore)
    }

    /// If the keybag and the device key were replaced by another store's, every item would seem to be absent.
    private func checkItems(belongTo keyring: Keyring) throws {
        let namespaces = try storage.namespaces().filter(Keyring.isNamespaceOfAnyStore)
        if !namespaces.isEmpty, !namespaces.contains(where: keyring.owns) {
            throw LockboxError.authenticationFailed(record: keybagSubject)
        }
    }

    var keybagLocation: String { storage.location(of: Self.keybagRecord) }

    var keybagSubject: LockboxError.Subject { .keybag(keybagLocation) }

    var keybagIsMissing: LockboxError { .missing(record: keybagSubject) }

    var storeIsNotFound: LockboxError { .storeNotFound(location: Path.parent(of: keybagLocation)) }

    func mappingErrors<Result>(of record: RecordName, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as RecordError {
            throw error.lockboxError(storage.subject(of: record))
        }
    }
}

/// A keybag that has been read, and its open keys. A class, because every access passes it on.
final class OpenedKeybag: Sendable {
    let keybag: Keybag
    let keyring: Keyring
    /// The unlock keys that are open: both, one after a lock, or none. A store without slots has both.
    let unlockKeys: [UnlockLevel: SecretKey]
    /// Whether level 1 was opened, so that all of it is known to be the owner's.
    let isComplete: Bool
    /// Held while this process has unlocked the store itself. They open the keybags that other processes write.
    let slotKeys: SlotKeys?
    /// Known facts of the store, if nothing has opened level 1 of this keybag.
    private let trusted: TrustedKeybag?
    /// See ``isWiped``.
    private let generation = ForkGuard.generation

    /// Whether this is a forked child, in which the kernel has wiped the parent's keys.
    var isWiped: Bool { generation != ForkGuard.generation }

    init(
        _ keybag: Keybag,
        _ keys: [Keyring.Entry],
        unlockKeys: [UnlockLevel: SecretKey],
        isComplete: Bool,
        slotKeys: SlotKeys?,
        trusted: TrustedKeybag? = nil,
        revision: RecordRevision
    ) throws(RecordError) {
        self.keybag = keybag
        self.unlockKeys = unlockKeys
        self.isComplete = isComplete
        self.slotKeys = slotKeys
        self.trusted = trusted
        keyring = try Keyring(keybag: keybag, keys: keys, trusted: trusted, revision: revision)
    }

    /// The classes that are open with these keys.
    var lockState: LockState {
        if keybag.slots.isEmpty { return .unprotected }
        if keyring.isOpen(.whenUnlocked) { return .unlocked }
        return keyring.isOpen(.afterFirstUnlock) ? .locked : .beforeFirstUnlock
    }

    /// Returns the same keybag without the keys of some levels.
    func without(_ levels: [UnlockLevel]) throws(RecordError) -> OpenedKeybag {
        try OpenedKeybag(
            keybag,
            keyring.keys { $0.level.map { !levels.contains($0) } ?? true },
            unlockKeys: unlockKeys.filter { !levels.contains($0.key) },
            isComplete: isComplete && !levels.contains(.unlocked),
            slotKeys: slotKeys?.without(levels),
            trusted: trusted,
            revision: keyring.revision
        )
    }

    /// Returns the same keybag with the keys that an unlock key opens in addition.
    func adding(_ level: UnlockLevel, _ key: SecretKey) throws -> OpenedKeybag {
        let contents = try keybag.open([level: key])
        let known = keyring.keys { _ in true }.filter { known in
            !contents.keys.contains { $0.id == known.id }
        }
        return try OpenedKeybag(
            keybag,
            contents.keys + known,
            unlockKeys: contents.unlockKeys.merging(unlockKeys) { new, _ in new },
            isComplete: isComplete || contents.isComplete,
            slotKeys: nil,
            trusted: contents.isComplete ? nil : trusted,
            revision: keyring.revision
        )
    }
}
