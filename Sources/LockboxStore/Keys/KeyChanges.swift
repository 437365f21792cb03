import LockboxCore

/// Changes of the slots, and key rotation. They return whether the store has a new device key.
struct KeyChanges: Sendable {
    let keys: KeyStore

    private var writer: KeybagWriter { KeybagWriter(keys: keys) }

    // MARK: The passcode

    /// Creates the store if there is none.
    func setPasscode(_ passcode: PasscodeSource, strength: PasscodeStrength) throws -> Bool {
        let opened = try madeForASlot()
        if opened.keybag.passcodeSlot != nil { throw LockboxError.passcodeAlreadySet }
        let method = SecretUnlock.passcode(passcode, strength: strength)
        let new = try keys.slots.make(method, label: "", opensAllClasses: true, opened.keybag.storeID)
        return try writer.rewrite(.exceptProtection) { opened in
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
        try keys.withUserUnlock(keys.loadIfMade(.exceptProtection) ?? keys.create(.exceptProtection))
    }

    /// Needs no old passcode: an unlocked store's keys are all in memory.
    func changePasscode(from old: PasscodeSource?, to passcode: PasscodeSource, strength: PasscodeStrength)
        throws
        -> Bool
    {
        let (checked, slotKeys) = try checkPasscode(old)
        let method = SecretUnlock.passcode(passcode, strength: strength)
        let new = try keys.slots.make(method, label: "", opensAllClasses: true, checked.keybag.storeID)
        return try writer.rewrite { opened in
            try check(slotKeys, of: checked.keybag, open: opened.keybag)
            let present = try passcodeSlot(of: opened)
            return try change(opened, slotKeys: new.keys) { slots in
                slots.removeAll { $0.slot.id == present }
                slots.insert(new.slot, at: 0)
            }
        }
    }

    func removePasscode(_ old: PasscodeSource?, otherSlots: Bool) throws -> Bool {
        let (checked, slotKeys) = try checkPasscode(old)
        return try writer.rewrite { opened in
            try check(slotKeys, of: checked.keybag, open: opened.keybag)
            let present = try passcodeSlot(of: opened)
            return try change(opened) { slots in slots.removeAll { otherSlots || $0.slot.id == present } }
        }
    }

    private func checkPasscode(_ old: PasscodeSource?) throws -> (opened: OpenedKeybag, keys: SlotKeys?) {
        guard try keys.keyring(creating: false) != nil else { throw LockboxError.passcodeNotSet }
        let opened = try keys.current()
        _ = try passcodeSlot(of: opened)
        let slotKeys = try old.map { try keys.slots.keys(.passcode($0), of: opened.keybag) }
        try checkIsUnlocked(opened)
        return (opened, slotKeys)
    }

    /// Throws unless the keys of a slot, if there are any, open a keybag. An attacker with the device key can put one of their own
    /// in the place of the one that has the slot, and unlock it in the kernel.
    private func check(_ slotKeys: SlotKeys?, of checked: Keybag, open keybag: Keybag) throws {
        guard let slotKeys else { return }
        let unlockKeys = keybag.slots.isEmpty ? [:] : try keybag.unlockKeys(with: slotKeys)
        do {
            if unlockKeys[.unlocked] != nil { return _ = try keybag.open(unlockKeys) }
        } catch RecordError.notAuthentic {}
        // Its owner may have changed the slots meanwhile.
        if keybag.follows(checked.owner.key) { throw LockboxError.conflict(record: keys.reader.location) }
        throw LockboxError.authenticationFailed(record: keys.reader.subject)
    }

    private func passcodeSlot(of opened: OpenedKeybag) throws -> KeybagSlot.ID {
        guard let slot = opened.keybag.passcodeSlot else { throw LockboxError.passcodeNotSet }
        return slot.id
    }

    // MARK: Other slots

    /// A recovery code may be the first slot, and its store may have to be made.
    func addSlot(_ method: any UnlockMethod, label: String, opensAllClasses: Bool) throws -> Bool {
        let isFirst =
            try method.kind == .recoveryCode
            && keys.loadIfMade(.exceptProtection)?.keybag.slots.isEmpty ?? true
        guard try isFirst || keys.keyring(creating: false) != nil else { throw noRecoveryCode }
        let opened = try isFirst ? madeForASlot() : keys.current()
        try checkCanBeAdded(method.kind, to: opened.keybag)
        try checkIsUnlocked(opened)
        let new = try keys.slots.make(
            method,
            label: label,
            opensAllClasses: opensAllClasses,
            opened.keybag.storeID
        )
        return try writer.rewrite(isFirst ? .exceptProtection : .all) { opened in
            try checkCanBeAdded(method.kind, to: opened.keybag)
            try keys.slots.checkIsNoDeviceKey(new.slot.slot, opened.keybag)
            return try change(opened, slotKeys: opened.keybag.slots.isEmpty ? new.keys : nil) { $0.add(new) }
        }
    }

    /// Begins the epoch of a first slot, if the process that added the slot was killed before. Until that succeeds, nothing that needs
    /// an unlock can be written.
    func endFirstSlot() {
        guard keys.opened?.keyring.isFromBeforeSlots ?? false else { return }
        _ = try? writer.rewrite { opened in
            opened.keyring.isFromBeforeSlots ? try change(opened) { _ in } : nil
        }
    }

    /// - Returns: Its kind too: only the keybag that is changed tells it.
    func removeSlot(named name: String) throws -> (hasNewDeviceKey: Bool, kind: SlotKind) {
        var kind: SlotKind?
        let hasNewDeviceKey =
            try keys.keyring(creating: false) != nil
            && writer.rewrite { opened in
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
        try writer.rewrite { opened in
            if case .replace(let source) = device { try keys.slots.checkIsNoSlotsKey(source, opened.keybag) }
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
        try writer.rewrite { opened in
            // Nothing is known of a keybag that it cannot open.
            var next = try KeybagRewrite(after: opened)
            let keybag = opened.keybag
            isCurrent = keybag.epoch == keyring.epoch && [keybag.closing] == keyring.closings
            guard isCurrent else { return nil }
            next.device = .keep
            let stored = try keys.manifests.store(manifest)
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
        let opened = try keys.current()
        _ = try KeybagRewrite(after: opened)
        return opened.keyring
    }

    /// Whether a change of the keys has not come to the point from which the former ones open nothing new. Another process may be in
    /// the middle of it.
    func isInterrupted() throws -> Bool {
        let found = try keys.own().keybag
        guard found.isPrepared else { return found.isOpenBefore }
        let keybag = try keys.alone { try keys.own().keybag }
        return keybag.isPrepared || keybag.isOpenBefore
    }

    /// Removes the lists that the keybag does not name.
    func removeOldManifests() throws {
        try keys.keybagMutex.withLock {
            let lock = try keys.storage.lockIfSupported([nil])
            defer { lock?.release() }
            try keys.manifests.removeAll(besides: keys.own())
        }
    }

    // MARK: A restored store

    /// Makes an older keybag than the one seen last the newest again.
    ///
    /// - Returns: Whether the device key is new, or nil if there is no store any more, which is then known.
    func acceptRestored(_ method: (any UnlockMethod)?) throws -> Bool? {
        guard let opened = try keys.loadIfMade(.exceptRollback) else {
            if try keys.known.memory?.forget() ?? false { return nil }
            throw keys.storeIsNotFound
        }
        if method == nil, !opened.keybag.slots.isEmpty {
            throw LockboxError.interactionNotAllowed(.whenUnlocked)
        }
        // If there is no slot, the copy is from before there was one.
        let slotKeys = try method.map { try keys.slots.keys($0, of: opened.keybag) }
        let checked = opened.keybag
        return try writer.rewrite(.exceptRollback, slotKeys) { opened in
            try check(slotKeys, of: checked, open: opened.keybag)
            var next = try KeybagRewrite(after: opened)
            if let highest = try keys.known.last(before: opened.keybag) {
                // Nothing authenticates the generation of a store without slots, and a counter need not follow it.
                let isForgeable = keys.known.counter.isUsed && opened.keybag.slots.isEmpty
                let last = max(highest.generation, isForgeable ? 0 : opened.keybag.generation)
                next.contents.generation = try KeybagContents.generation(after: last)
                next.contents.epoch = max(highest.epoch, opened.keybag.epoch)
            }
            try next.contents.beginEpoch()
            return next
        }
    }

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
        try keys.checkProtection(next.contents.slots.map(\.slot))
        next.slotKeys = slotKeys
        let kept = Set(next.contents.slots.map(\.slot.id))
        let gone = opened.keybag.slots.filter { !kept.contains($0.id) }
        // One that was older than the last revocation is replaced because of that, and not because it leaked too.
        try next.contents.beginEpoch(revokes: !gone.allSatisfy(opened.keybag.isOlderThanRevocation))
        try checkIdentity(of: next.contents)
        return next
    }

    private func checkIdentity(of next: KeybagContents) throws {
        guard let identity = keys.requirements.identity, next.owner.identity != identity else { return }
        throw keys.notMet(
            "with its first slot it gets another identity, and this program requires \(identity); add the slot with a program that "
                + "requires none"
        )
    }

    private func checkIsUnlocked(_ opened: OpenedKeybag) throws {
        if opened.unlockKeys[.unlocked] == nil { throw LockboxError.interactionNotAllowed(.whenUnlocked) }
    }

    /// An attacker with the device key can forge the generation of a store without slots. A counter that could not follow it would
    /// notice nothing any more.
    private func checkCounterFollows(_ keybag: Keybag) throws {
        guard let counted = try keys.known.counter.value,
            keybag.generation + 2 > counted + Knowledge.maximumIncrements
        else { return }
        throw LockboxError.rolledBack(
            record: keys.reader.subject,
            reason: "its generation is \(keybag.generation), which the counter at \(counted) cannot follow"
        )
    }
}

extension [KeybagContents.Slot] {
    /// It may be there from a first attempt, which another process has overtaken.
    fileprivate mutating func add(_ new: Slots.New) {
        removeAll { $0.slot.id == new.keys.slot }
        append(new.slot)
    }
}
