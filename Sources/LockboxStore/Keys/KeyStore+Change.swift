import LockboxCore

/// Operations that rewrite the keybag: changes of its slots, and key rotation. They return whether the store has a new
/// device key.
extension KeyStore {
    // MARK: The passcode

    /// Creates the store if there is none.
    func setPasscode(_ passcode: PasscodeSource, strength: PasscodeStrength) throws -> Bool {
        let opened = try madeForASlot()
        if opened.keybag.passcodeSlot != nil { throw LockboxError.passcodeAlreadySet }
        let method = SecretUnlock.passcode(passcode, strength: strength)
        let new = try makeSlot(method, label: "", opensAllClasses: true, opened.keybag.storeID)
        return try rewrite(.exceptProtection) { opened in
            // Its own may be there from a first attempt, which another process has overtaken.
            if let slot = opened.keybag.passcodeSlot, slot.id != new.keys.slot {
                throw LockboxError.passcodeAlreadySet
            }
            return try change(opened, slotKeys: new.keys) { $0.add(new) }
        }
    }

    /// Returns the store that is to get a slot, and makes it if there is none. It need not have the slot that this program
    /// requires: that may be this one.
    private func madeForASlot() throws -> OpenedKeybag {
        try withUserUnlock(loadIfMade(.exceptProtection) ?? create(.exceptProtection))
    }

    /// Needs no old passcode: an unlocked store's keys are all in memory.
    func changePasscode(from old: PasscodeSource?, to passcode: PasscodeSource, strength: PasscodeStrength)
        throws
        -> Bool
    {
        let (checked, keys) = try checkPasscode(old)
        let method = SecretUnlock.passcode(passcode, strength: strength)
        let new = try makeSlot(method, label: "", opensAllClasses: true, checked.keybag.storeID)
        return try rewrite { opened in
            try check(keys, of: checked.keybag, open: opened.keybag)
            let present = try passcodeSlot(of: opened)
            return try change(opened, slotKeys: new.keys) { slots in
                slots.removeAll { $0.slot.id == present }
                slots.insert(new.slot, at: 0)
            }
        }
    }

    func removePasscode(_ old: PasscodeSource?, otherSlots: Bool) throws -> Bool {
        let (checked, keys) = try checkPasscode(old)
        return try rewrite { opened in
            try check(keys, of: checked.keybag, open: opened.keybag)
            let present = try passcodeSlot(of: opened)
            return try change(opened) { slots in slots.removeAll { otherSlots || $0.slot.id == present } }
        }
    }

    private func checkPasscode(_ old: PasscodeSource?) throws -> (opened: OpenedKeybag, keys: SlotKeys?) {
        guard try keyring(creating: false) != nil else { throw LockboxError.passcodeNotSet }
        let opened = try current()
        _ = try passcodeSlot(of: opened)
        let keys = try old.map { try slotKeys(.passcode($0), of: opened.keybag) }
        try checkIsUnlocked(opened)
        return (opened, keys)
    }

    /// Throws unless the keys of a slot, if there are any, open a keybag. An attacker with the device key can put one of their own
    /// in the place of the one that has the slot, and unlock it in the kernel.
    private func check(_ keys: SlotKeys?, of checked: Keybag, open keybag: Keybag) throws {
        guard let keys else { return }
        let unlockKeys = keybag.slots.isEmpty ? [:] : try keybag.unlockKeys(with: keys)
        do {
            if unlockKeys[.unlocked] != nil { return _ = try keybag.open(unlockKeys) }
        } catch RecordError.notAuthentic {}
        // Its owner may have changed the slots meanwhile.
        if keybag.follows(checked.owner.key) { throw LockboxError.conflict(record: keybagLocation) }
        throw LockboxError.authenticationFailed(record: keybagSubject)
    }

    private func passcodeSlot(of opened: OpenedKeybag) throws -> KeybagSlot.ID {
        guard let slot = opened.keybag.passcodeSlot else { throw LockboxError.passcodeNotSet }
        return slot.id
    }

    // MARK: Other slots

    /// A recovery code may be the first slot, and its store may have to be made.
    func addSlot(_ method: any UnlockMethod, label: String, opensAllClasses: Bool) throws -> Bool {
        let isFirst =
            try method.kind == .recoveryCode && loadIfMade(.exceptProtection)?.keybag.slots.isEmpty ?? true
        guard try isFirst || keyring(creating: false) != nil else { throw noRecoveryCode }
        let opened = try isFirst ? madeForASlot() : current()
        try checkCanBeAdded(method.kind, to: opened.keybag)
        try checkIsUnlocked(opened)
        let new = try makeSlot(method, label: label, opensAllClasses: opensAllClasses, opened.keybag.storeID)
        return try rewrite(isFirst ? .exceptProtection : .all) { opened in
            try checkCanBeAdded(method.kind, to: opened.keybag)
            try checkIsNoDeviceKey(new.slot.slot, opened.keybag)
            return try change(opened, slotKeys: opened.keybag.slots.isEmpty ? new.keys : nil) { $0.add(new) }
        }
    }

    /// Begins the epoch of a first slot, if the process that added the slot was killed before. Until that succeeds, nothing that needs
    /// an unlock can be written.
    func endFirstSlot() {
        guard opened?.keyring.isFromBeforeSlots ?? false else { return }
        _ = try? rewrite { opened in
            opened.keyring.isFromBeforeSlots ? try change(opened) { _ in } : nil
        }
    }

    /// - Returns: Its kind too: only the keybag that is changed tells it.
    func removeSlot(named name: String) throws -> (hasNewDeviceKey: Bool, kind: SlotKind) {
        var kind: SlotKind?
        let hasNewDeviceKey =
            try keyring(creating: false) != nil
            && rewrite { opened in
                let found = opened.keybag.slots.first { $0.id.hexadecimal == name }
                guard let found else { throw LockboxError.slotNotFound(slot: name) }
                kind = found.kind
                return try change(opened) { slots in slots.removeAll { $0.slot.id == found.id } }
            }
        guard let kind else { throw LockboxError.slotNotFound(slot: name) }
        return (hasNewDeviceKey, kind)
    }

    /// Before the method is asked, which may take time or a touch.
    private func checkCanBeAdded(_ kind: SlotKind, to keybag: Keybag) throws {
        if kind == .passcode { throw LockboxError.slotRefused(reason: "use setPasscode to add a passcode") }
        if kind == .recoveryCode || keybag.slots.contains(where: { $0.kind == .recoveryCode }) { return }
        throw noRecoveryCode
    }

    private var noRecoveryCode: LockboxError {
        .slotRefused(reason: "add a recovery code first, because a key or hardware can be lost")
    }

    // MARK: Rotation

    func rotateKeys(_ device: DeviceKeyChange) throws -> Bool {
        try rewrite { opened in
            if case .replace(let source) = device { try checkIsNoSlotsKey(source, opened.keybag) }
            var next = try KeybagRewrite(after: opened)
            next.device = device
            try next.contents.beginEpoch()
            return next
        }
    }

    /// Closes the epochs before the keyring's.
    ///
    /// - Parameters:
    ///   - manifest: What opens from then on.
    ///   - needed: The epochs whose keys are kept.
    /// - Returns: False, and nothing was changed, if another process has begun or closed an epoch since the keyring was read.
    func closeOlderEpochs(_ keyring: Keyring, listing manifest: Manifest, needed: Set<UInt32>) throws -> Bool
    {
        var isCurrent = true
        try rewrite { opened in
            // Nothing is known of a keybag that it cannot open.
            var next = try KeybagRewrite(after: opened)
            let keybag = opened.keybag
            isCurrent = keybag.epoch == keyring.epoch && [keybag.closing] == keyring.closings
            guard isCurrent else { return nil }
            next.device = .keep
            let stored = try store(manifest)
            next.expected = stored.revisions
            next.contents.closeOlderEpochs(listing: stored.first) { needed.contains($0) }
            let isSame =
                next.contents.closing == keybag.closing && next.contents.keys.count == keybag.keyIDs.count
            return isSame ? nil : next
        }
        return isCurrent
    }

    /// Returns the keys to reseal items with.
    ///
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if not all are open: then nothing is known of the keybag.
    func completeKeyring() throws -> Keyring {
        let opened = try current()
        _ = try KeybagRewrite(after: opened)
        return opened.keyring
    }

    /// Whether a change of the keys has not come to the point from which the former ones open nothing new. Another process may be in
    /// the middle of it.
    func isInterrupted() throws -> Bool {
        let found = try own().keybag
        guard found.isPrepared else { return found.isOpenBefore }
        let lock = try lockIfAllowed()
        defer { lock?.release() }
        let keybag = try own().keybag
        return keybag.isPrepared || keybag.isOpenBefore
    }

    // MARK: A restored store

    /// Makes an older keybag than the one seen last the newest again.
    ///
    /// - Returns: Whether the device key is new, or nil if there is no store any more, which is then known.
    func acceptRestored(_ method: (any UnlockMethod)?) throws -> Bool? {
        guard let opened = try loadIfMade(.exceptRollback) else {
            if memory?.forget(nil) ?? false { return nil }
            throw storeIsNotFound
        }
        if method == nil, !opened.keybag.slots.isEmpty {
            throw LockboxError.interactionNotAllowed(.whenUnlocked)
        }
        // If there is no slot, the copy is from before there was one.
        let keys = try method.map { try slotKeys($0, of: opened.keybag) }
        let checked = opened.keybag
        return try rewrite(.exceptRollback, keys) { opened in
            try check(keys, of: checked, open: opened.keybag)
            var next = try KeybagRewrite(after: opened)
            if let highest = try highestSeen(opened.keybag, isFollowed: true) {
                // Nothing authenticates the generation of a store without slots, and a counter need not follow it.
                let isForgeable = counter != nil && opened.keybag.slots.isEmpty
                let last = max(highest.generation, isForgeable ? 0 : opened.keybag.generation)
                next.contents.generation = try KeybagContents.generation(after: last)
                next.contents.epoch = max(highest.epoch, opened.keybag.epoch)
            }
            try next.contents.beginEpoch()
            return next
        }
    }

    // MARK: The keybag

    /// Begins an epoch with other slots.
    private func change(
        _ opened: OpenedKeybag,
        slotKeys: SlotKeys? = nil,
        _ change: (inout [KeybagContents.Slot]) throws -> Void
    ) throws -> KeybagRewrite {
        if opened.keybag.slots.isEmpty { try checkCounterFollows(opened.keybag) }
        var next = try KeybagRewrite(after: opened)
        try change(&next.contents.slots)
        try next.contents.checkSlots()
        try checkProtection(next.contents.slots.map(\.slot))
        next.slotKeys = slotKeys
        let kept = Set(next.contents.slots.map(\.slot.id))
        let gone = opened.keybag.slots.filter { !kept.contains($0.id) }
        // One that was older than the last revocation is replaced because of that, and not because it leaked too.
        try next.contents.beginEpoch(revokes: !gone.allSatisfy(opened.keybag.isOlderThanRevocation))
        try checkIdentity(of: next.contents)
        return next
    }

    private func checkIdentity(of next: KeybagContents) throws {
        guard let identity = requirements.identity, next.owner.identity != identity else { return }
        throw notMet(
            "with its first slot it gets another identity, and this program requires \(identity); add the slot with a program that "
                + "requires none"
        )
    }

    private func checkIsUnlocked(_ opened: OpenedKeybag) throws {
        if opened.unlockKeys[.unlocked] == nil { throw LockboxError.interactionNotAllowed(.whenUnlocked) }
    }

    /// Replaces the keybag with the one that `change` returns. Tries again if another process has replaced it
    /// meanwhile.
    @discardableResult
    private func rewrite(
        _ check: Check = .all,
        _ slotKeys: SlotKeys? = nil,
        _ change: (OpenedKeybag) throws -> KeybagRewrite?
    ) throws -> Bool {
        try keybagMutex.withLock {
            var lock: (any StorageLock)?
            defer { lock?.release() }
            var conflicts = ConflictLimit()
            while true {
                // The one before may have been lost.
                if lock == nil { lock = try storage.lock(nil) }
                // Nothing is written under a device key or a keybag that has gone.
                guard let own = try load(slotKeys: slotKeys, check) else { throw keybagIsMissing }
                let opened = try withUserUnlock(own)
                let next = try mappingErrors(of: Self.keybagRecord) { try change(opened) }
                guard var next else { return false }
                // Keys that came from the kernel continue to come from there.
                let isOwn = own.unlockKeys[.unlocked] != nil
                if !isOwn { next.slotKeys = nil }
                let isAccepted = check == .exceptRollback
                guard
                    let device = try replace(opened, by: next, isOwn: isOwn, isAccepted: isAccepted, &lock)
                else {
                    try conflicts.check(Self.keybagRecord, storage)
                    continue
                }
                if isOwn { try keepOpen(next.contents) }
                try checkFollows(next.contents)
                return !device.isEqual(to: opened.keybag.deviceKey)
            }
        }
    }

    /// Throws if the keybag is neither the one written nor one by a writer that could open that.
    private func checkFollows(_ written: KeybagContents) throws {
        guard !written.slots.isEmpty, let key = written.unlockKeys[.unlocked] else { return }
        let current = try current()
        // A keybag from before it, under the same keys, has a lower generation.
        if (try? current.keybag.open([.unlocked: key])) != nil { return }
        if current.keybag.follows(written.owner.key) { return }
        throw LockboxError.outcomeUnknown(
            record: keybagLocation,
            reason: "it was changed again, and this program cannot open it any more"
        )
    }

    /// Keeps the store unlocked for this process if it has removed the slot that it was unlocked with.
    private func keepOpen(_ contents: KeybagContents) throws {
        guard let own = opened, own.unlockKeys[.unlocked] == nil,
            let key = contents.unlockKeys[.unlocked]
        else { return }
        // Not if another process has replaced the keybag since.
        do { keep(try own.adding(.unlocked, key)) } catch RecordError.notAuthentic {}
    }

    /// Replaces a keybag with another, in steps that each leave a store that opens:
    ///
    /// 1. the next device key beside the current one;
    /// 2. the next keybag, which still seals with the current keys;
    /// 3. the next keybag, which seals with the next ones: now a power cut cannot bring back a keybag that lacks them;
    /// 4. the next device key alone.
    ///
    /// An unlock for the user's other processes stays in effect.
    ///
    /// - Parameters:
    ///   - isOwn: Whether this process has opened it itself, and not only with what the kernel had.
    ///   - isAccepted: Whether it was older than one seen before, and its owner knows why.
    /// - Returns: The device key, or nil if another process has replaced the keybag meanwhile.
    private func replace(
        _ opened: OpenedKeybag,
        by next: KeybagRewrite,
        isOwn: Bool,
        isAccepted: Bool,
        _ lock: inout (any StorageLock)?
    ) throws -> SecretKey? {
        guard let device = try beginDeviceKey(next.device, opened, &lock) else { return nil }
        let keys = UserUnlock.NextKeys(
            store: next.contents.storeID,
            device: device.key,
            unlockKeys: next.contents.slots.isEmpty ? [:] : next.contents.unlockKeys
        )
        let isNewEpoch = next.contents.epoch != opened.keybag.epoch
        let records = isNewEpoch ? try userUnlock.records(of: opened.keybag) : []
        userUnlock.announce(records, for: keys)
        let stages = next.stages(after: opened.keybag)
        guard let written = try write(stages, next, opened.keyring.revision, device, &lock) else {
            return nil
        }
        if isAccepted {
            try forgetForgedNumbers(opened.keybag)
            // Its owner knows why it is another one.
            memory?.forget(opened.keybag.storeID)
            trusted.withLock { $0 = nil }
        }
        trust(stages[stages.count - 1], isOwn: isOwn)
        try endDeviceKey(device, written, &lock)
        try load(slotKeys: next.slotKeys)
        if isNewEpoch { try userUnlock.republish(records, for: keys) }
        return device.key
    }

    /// Returns the keybag's new revision, or nil if another process has replaced it meanwhile.
    private func write(
        _ stages: [KeybagContents],
        _ next: KeybagRewrite,
        _ expected: RecordRevision,
        _ device: NextDeviceKey,
        _ lock: inout (any StorageLock)?
    ) throws -> RecordRevision? {
        let record = Self.keybagRecord
        var (expected, device) = (expected, device)
        for (stage, contents) in stages.enumerated() {
            let bytes = try contents.encoded(deviceKey: device.key)
            let changes = [.put(record, bytes)] + (stage == 0 ? self.device.changes(to: device.stored) : [])
            // With locks, no process removes the others meanwhile.
            let others = lock == nil ? next.expected : [:]
            let all = others.merging(device.expected) { $1 }.merging([record: expected]) { $1 }
            switch try storage.commit(changes, expecting: all, lock: &lock) {
            case .committed:
                if storage.limits.isTransactional { device.expected = [:] }
                // In a storage without locks, another process may have replaced it already.
                let found = try storage.read([record], maximum: KeybagHeader.maximumRecordLength)[record]
                let isOurs = found?.bytes == bytes
                if !isOurs, stage < stages.count - 1 { return nil }
                if let found, isOurs { expected = found.revision }
            case .conflict: return nil
            case .unknown(let error): throw error
            }
        }
        return expected
    }

    // MARK: The device key

    private struct NextDeviceKey {
        var key: SecretKey
        /// The keys in the store's record afterwards, or nil if it stays as it is.
        var stored: [SecretKey]?
        /// Where the key is to be read from now on, if not where it was.
        var source: DeviceKeySource?
        /// The revision of the store's record, if it matters.
        var expected: [RecordName: RecordRevision]
    }

    /// Puts the next device key beside the current one, if the store keeps it, and if the storage cannot change it together with the
    /// keybag. Returns nil if another process has changed one of them meanwhile.
    private func beginDeviceKey(
        _ change: DeviceKeyChange,
        _ opened: OpenedKeybag,
        _ lock: inout (any StorageLock)?
    ) throws -> NextDeviceKey? {
        let present = opened.keybag.deviceKey
        let found = try device.read()
        let isStored = found.stored.contains { $0.isEqual(to: present) }
        var next = NextDeviceKey(key: present, expected: isStored ? [.deviceKey: found.revision] : [:])
        switch change {
        case .renew where isStored: break
        case .keep, .renew:
            // A change that was interrupted may have left a second key.
            if isStored, found.stored.count > 1 { next.stored = [present] }
            return next
        case .replace(let source):
            next.source = source
            if let key = try source.given() {
                (next.key, next.stored) = (key, isStored ? [] : nil)
                return next
            }
            try device.checkIsKept()
        }
        next.key = try .random()
        next.stored = [next.key]
        if storage.limits.isTransactional { return next }
        let expected = next.expected.merging([Self.keybagRecord: opened.keyring.revision]) { $1 }
        let keys = isStored ? [next.key, present] : [next.key]
        guard let revision = try device.store(keys, expecting: expected, &lock) else { return nil }
        next.expected = revision
        return next
    }

    /// - Parameter keybag: The revision of the next keybag. If another process has replaced that, it has its own device keys there.
    private func endDeviceKey(
        _ next: NextDeviceKey,
        _ keybag: RecordRevision,
        _ lock: inout (any StorageLock)?
    ) throws {
        if let source = next.source { device.use(source) }
        guard let stored = next.stored, !storage.limits.isTransactional else { return }
        let expected = next.expected.merging([Self.keybagRecord: keybag]) { $1 }
        // Once more without the lock, which may have been lost.
        if try device.store(stored, expecting: expected, &lock) == nil, lock == nil {
            _ = try device.store(stored, expecting: expected, &lock)
        }
    }
}

extension [KeybagContents.Slot] {
    /// It may be there from a first attempt, which another process has overtaken.
    fileprivate mutating func add(_ new: KeyStore.NewSlot) {
        removeAll { $0.slot.id == new.keys.slot }
        append(new.slot)
    }
}

/// A keybag that is to replace the current one.
struct KeybagRewrite {
    var contents: KeybagContents
    /// The keys that open the new keybag for this process, if not those that opened the one before.
    var slotKeys: SlotKeys?
    var device = DeviceKeyChange.renew
    /// Records that have to be there, besides the keybag.
    var expected: [RecordName: RecordRevision] = [:]

    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    init(after opened: OpenedKeybag) throws {
        let contents = try KeybagContents(after: opened.keybag, unlockKeys: opened.unlockKeys)
        guard let contents else {
            throw LockboxError.interactionNotAllowed(.whenUnlocked)
        }
        self.contents = contents
    }

    /// The keybags to write, one after the other.
    func stages(after old: Keybag) -> [KeybagContents] {
        if contents.epoch == old.epoch { return [contents] }
        var (first, second) = (contents, contents)
        first.epoch = old.epoch
        second.generation += 1
        return [first, second]
    }
}

/// The change of the device key when the keybag is replaced.
enum DeviceKeyChange {
    case keep
    /// A new one, where it is in the store. Elsewhere only its owner can replace it.
    case renew
    case replace(DeviceKeySource)
}
