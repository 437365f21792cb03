@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// A store's keys. Decides which of them are open.
///
/// Either nothing has been read yet, or the keybag has been, with the keys that this process has unlocked itself: ``opened``, which
/// ``keep(_:)`` alone sets. In addition, each access asks the kernel for the keys that the user has unlocked for every process;
/// ``userUnlock`` only caches what the kernel's records open.
///
/// If another process replaces the keybag, it is read again when an item needs it, when a commit finds another
/// revision than expected, and when the keys are changed.
final class KeyStore: Sendable {
    let storage: any RecordStorage
    let reader: KeybagReader
    let slots = Slots()
    let manifests: Manifests
    let userUnlock: UserUnlock
    let requirements: StoreRequirements
    /// No lock takes anything out of it.
    let known: KnownStore
    /// The keybag that was read last. A lock takes keys out of it.
    private let last = Protected<OpenedKeybag?>(nil)
    /// Held while ``opened`` is replaced, so that a read of the keybag cannot undo a `lock()`. Lock order:
    /// after a namespace's lock, before the keybag's lock.
    let keybagMutex = Lock(isRecursive: true)
    /// When a thread last found that the storage is not reachable.
    private let outage = Protected<(error: LockboxError, end: Duration)?>(nil)

    init(
        storage: any RecordStorage,
        deviceKey: DeviceKeySource,
        requires requirements: StoreRequirements = StoreRequirements(),
        kernel: KernelKeyring = KernelKeyring(),
        memory: StoreMemory? = nil,
        counter: (any GenerationCounter)? = nil
    ) {
        self.storage = storage
        self.requirements = requirements
        reader = KeybagReader(storage: storage, device: StoredDeviceKey(storage: storage, source: deviceKey))
        known = KnownStore(storage, memory: memory, counter: counter)
        manifests = Manifests(storage)
        userUnlock = UserUnlock(kernel: kernel)
    }

    /// The keybag that was read last, or nil in a forked child, which has to read it again, and to unlock the store itself.
    var opened: OpenedKeybag? { last.withLock { $0.flatMap { $0.isWiped ? nil : $0 } } }

    /// Replaces the keybag that was read last, or what is open of it. The caller holds ``keybagMutex``.
    func keep(_ opened: OpenedKeybag) { last.withLock { $0 = opened } }

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
        let found = try reader.revisions(opened?.keyring.version ?? KeybagVersion())
        func unchanged() -> OpenedKeybag? {
            guard let opened, opened.keyring.version.expected == found,
                known.process.withLock({ $0.isNewest(opened.keybag.generation) })
            else { return nil }
            return opened
        }
        if let opened = unchanged() { return opened }
        return try oneByOne {
            // Another thread may have read it meanwhile.
            if let opened = unchanged() { return opened }
            guard let opened = try load() else { throw keybagIsMissing }
            return opened
        }
    }

    /// Throws if the keybag has been replaced: an earlier epoch may have been closed, and what is listed has been resealed.
    func checkIsCurrent(_ keyring: Keyring) throws {
        if try reader.revisions(keyring.version) != keyring.version.expected { throw RecordError.notListed }
    }

    /// Returns the keys to write with: others, if another process of the user has changed them since these were read. An attacker
    /// may have put the keybag of these back meanwhile, which is then an error.
    func newest(_ keyring: Keyring) throws -> Keyring {
        if known.isNewest(keyring) { return keyring }
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
                guard let (keybag, version) = try reader.read() else { return nil }
                let before = opened
                if let before, before.keybag.storeID != keybag.storeID {
                    throw LockboxError.storeReplaced(location: reader.location)
                }
                if check != .exceptRollback, let error = try known.refusal(of: keybag) {
                    // Unless another process has just replaced it.
                    if try reader.revisions(version) != version.expected {
                        try conflicts.check(.keybag, storage)
                        continue
                    }
                    throw error
                }
                try checkRequirements(keybag, check)
                let opened = try reader.mappingErrors {
                    try open(keybag, version, slotKeys, before)
                }
                try reader.checkItems(belongTo: opened.keyring)
                if check != .exceptRollback { known.learn(from: opened) }
                if check == .all {
                    known.process.withLock { $0.learn(KeybagNumbers(keybag)) }
                    if opened.isComplete { known.remember(keybag) }
                    keep(opened)
                }
                return opened
            }
        }
    }

    private func open(
        _ keybag: Keybag,
        _ version: KeybagVersion,
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
            known: contents.isComplete ? nil : known.process.withLock(\.unlocked),
            version: version
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

    /// Creates a new store's keys, unless another process creates them first.
    func create(_ check: Check) throws -> OpenedKeybag {
        try keybagMutex.withLock {
            do { try checkCanBeMade(check) } catch {
                // Another process may have made it meanwhile.
                if let opened = try loadIfMade(check) { return opened }
                throw error
            }
            let lock = try KeybagLock(storage)
            defer { lock.release() }
            var conflicts = ConflictLimit()
            while true {
                try lock.take()
                if let opened = try loadIfMade(check) { return opened }
                if let device = try reader.device.make(lock) {
                    let keybag = try KeybagContents().encoded(deviceKey: device.key)
                    let outcome = try lock.commit(
                        device.changes + [.put(.keybag, keybag)],
                        expecting: device.expecting.merging([.keybag: .absent]) { $1 }
                    )
                    if case .unknown(let error) = outcome { throw error }
                    if case .committed = outcome {
                        reader.copies.make(of: reader.copiedRecords, lock)
                        continue
                    }
                }
                try conflicts.check(.keybag, storage)
            }
        }
    }

    /// Before anything is changed. What another program keeps in the folder is not Lockbox's, and must not look as if it were.
    private func checkCanBeMade(_ check: Check) throws {
        if requirements.identity != nil || check == .all && requirements.protection != .none {
            throw notMet(noStore)
        }
        let strange =
            try storage.findingsIfSupported().first { $0.kind != .leftover }?.location
            ?? storage.namespaces().first
        guard let strange else { return }
        throw LockboxError.invalidLocation(
            location: Path.parent(of: reader.location),
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
        .requirementNotMet(record: reader.subject, reason: reason)
    }

    // MARK: Damaged and replaced stores

    /// Reads the keybag; returns nil if there is no store.
    func loadIfMade(_ check: Check) throws -> OpenedKeybag? {
        if let opened = try load(check) { return opened }
        let isToBeKnown = check != .exceptRollback
        let reason = try reader.hasItems() ? keybagIsMissing : isToBeKnown ? known.signOfAnother() : nil
        guard let reason else { return nil }
        // Another process may have just made it, and what tells of it.
        if let opened = try load(check) { return opened }
        throw reason
    }

    var keybagIsMissing: LockboxError { .missing(record: reader.subject) }

    var storeIsNotFound: LockboxError { .storeNotFound(location: Path.parent(of: reader.location)) }

    // MARK: Locking and unlocking

    var lockState: LockState {
        get throws { try ownIfMade().map { try withUserUnlock($0).lockState } ?? .unprotected }
    }

    /// Asks the method for its secret once, without holding a lock.
    ///
    /// - Parameter status: What was just read of the store. The keybag is read again before the unlock takes effect in any case.
    func unlock(
        _ method: any UnlockMethod,
        scope: UnlockScope,
        timeout: Duration?,
        after status: StoreStatus? = nil
    ) throws -> UnlockScope {
        var status = status
        while true {
            let looked = opened.flatMap { $0.keybag.generation == status?.generation ? $0 : nil }
            status = nil
            guard let own = try looked ?? ownIfMade() else { throw method.kind.missing }
            let keys = try slots.keys(method, of: own.keybag)
            let reached = try keybagMutex.withLock { () -> UnlockScope? in
                // Neither does anything if another process has removed the slot meanwhile.
                if scope == .user, try unlockForUser(keys, timeout) { return .user }
                return try load(slotKeys: keys)?.slotKeys?.slot == keys.slot ? .process : nil
            }
            if let reached { return reached }
        }
    }

    /// Puts the unlock keys into the kernel only, so that a lock by another process takes effect in this one. Returns
    /// false if the kernel refuses, or if the slot has been removed meanwhile.
    ///
    /// Under the keybag's lock, because a process that rewrites the keybag also replaces the kernel's records.
    private func unlockForUser(_ keys: SlotKeys, _ timeout: Duration?) throws -> Bool {
        let lock = try lockIfAllowed()
        defer { lock?.release() }
        let own = try own()
        guard own.keybag.slots.contains(where: { $0.id == keys.slot }) else { return false }
        let contents = try reader.mappingErrors {
            try own.keybag.open(own.keybag.unlockKeys(with: keys))
        }
        let unlockKeys = contents.unlockKeys
        if unlockKeys.isEmpty { return false }
        let isComplete = contents.isComplete
        known.process.withLock {
            $0.learn(
                unlocking: own.keybag,
                with: unlockKeys,
                isComplete: isComplete,
                isOwn: false,
                isProven: isComplete
            )
        }
        if contents.isComplete { known.remember(own.keybag) }
        // If it fails half way, nothing is unlocked.
        do {
            let deadline = UserUnlock.deadline(after: timeout)
            guard try userUnlock.publish(own.keybag, unlockKeys, deadline: deadline) else { return false }
            let kept = try forget([.unlocked]) ?? own
            if try unlockKeys.keys.allSatisfy({ try withUserUnlock(kept).keyring.isOpen(level: $0) }) {
                return true
            }
            // The kernel took the keys but does not return them, so they are useless.
            try userUnlock.remove(own.keybag.storeID)
            return false
        } catch {
            _ = try? userUnlock.remove(own.keybag.storeID)
            throw error
        }
    }

    /// Looks at the keys while no process changes them, unless this one has no permission to write.
    func alone<Result>(_ look: () throws -> Result) throws -> Result {
        try keybagMutex.withLock {
            let lock = try lockIfAllowed()
            defer { lock?.release() }
            return try look()
        }
    }

    /// Waits for the keybag's lock. Returns nil if this process has no permission to write.
    private func lockIfAllowed() throws -> (any StorageLock)? {
        do { return try storage.lockIfSupported([nil]) } catch let error as LockboxError
            where error.code == .readOnly
        {
            return nil
        }
    }

    /// Wipes the keys that only an unlock brings back, first in this process, then for the user's other
    /// processes.
    func lock(includingAfterFirstUnlock: Bool) throws {
        try keybagMutex.withLock {
            let levels: [UnlockLevel] =
                includingAfterFirstUnlock ? [.unlocked, .afterFirstUnlock] : [.unlocked]
            // A process that has unlocked the store for itself has nothing in the kernel, which may refuse every call.
            let isOwn = opened?.unlockKeys.isEmpty == false
            guard let store = try storeToLock(levels) else { return }
            guard try userUnlock.remove(store, levels, orThrow: !isOwn) else { return }
            // A process that is rewriting the keybag puts back the records that it found. Remove them again
            // when it is done.
            let lock = try lockIfAllowed()
            defer { lock?.release() }
            _ = try userUnlock.remove(store, levels)
        }
    }

    /// Wipes the keys that this process has. A store that does not open may still be unlocked in the kernel.
    private func storeToLock(_ levels: [UnlockLevel]) throws -> StoreID? {
        do { return try forget(levels)?.keybag.storeID } catch {
            // Another store, or none, may be in the place of the one that was unlocked here.
            let found = try? reader.storeIDInHeader()
            guard let store = known.storeHere ?? found else { throw error }
            let isRemoved = try userUnlock.remove(store, levels)
            // This process may have keys that it could not wipe, the store may be another one than the program requires, or its
            // identity may be damaged.
            let isOther = (error as? LockboxError)?.code == .requirementNotMet
            if isRemoved, opened == nil, found == store, !isOther { return store }
            throw error
        }
    }

    /// Reads nothing if there are keys to wipe, so that no read error can prevent it.
    private func forget(_ levels: [UnlockLevel]) throws -> OpenedKeybag? {
        userUnlock.forget()
        // Another process may have set a passcode meanwhile.
        if opened?.keybag.slots.isEmpty ?? true { _ = try loadIfMade(.all) }
        guard let opened = opened, !opened.keybag.slots.isEmpty else {
            return opened
        }
        let kept = try reader.mappingErrors { try opened.without(levels) }
        keep(kept)
        return kept
    }

    /// Returns the keybag with the keys that the user has unlocked for every process, unless all keys are open anyway. Waits for no
    /// other process.
    ///
    /// - Parameter isCurrent: Whether the keybag was just read, or found to be the current one.
    func withUserUnlock(_ own: OpenedKeybag, isCurrent: Bool = true) throws -> OpenedKeybag {
        if own.keyring.isComplete { return own }
        return try reader.mappingErrors {
            try userUnlock.unlocked(own, isCurrent: isCurrent, current: self.own) { opened in
                known.process.withLock { knowledge in
                    guard knowledge.accepts(opened.unlockKeys) else { return false }
                    knowledge.learn(
                        unlocking: opened.keybag,
                        with: opened.unlockKeys,
                        isComplete: opened.isComplete,
                        isOwn: false,
                        isProven: false
                    )
                    return true
                }
            }
        }
    }

    /// Returns nil if there is no store. Reads the keybag once, and waits for no other process.
    func status() throws -> StoreStatus? {
        guard let own = try ownIfMade() else { return nil }
        let opened = try withUserUnlock(own)
        let (keybag, state) = (opened.keybag, opened.lockState)
        let scope: UnlockScope? =
            state != .unlocked ? nil : own.keyring.isOpen(.whenUnlocked) ? .process : .user
        let record =
            scope != .user
            ? nil
            : try userUnlock.records(of: keybag).first {
                $0.record.level == .unlocked && $0.record.deadline > 0
            }
        return StoreStatus(
            identity: keybag.owner.identity,
            generation: keybag.generation,
            epoch: keybag.epoch,
            olderEpochs: keybag.epochs.filter { $0 < keybag.epoch }.sorted(),
            isInterrupted: keybag.isPrepared || keybag.isOpenBefore,
            slots: keybag.slots.map { UnlockSlot($0, in: keybag) },
            lockState: state,
            unlockScope: scope,
            unlockedUntil: record.map { Date(timeIntervalSince1970: Double($0.record.deadline)) }
        )
    }
}
