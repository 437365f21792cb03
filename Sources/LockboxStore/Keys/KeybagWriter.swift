import LockboxCore
import LockboxPlatform

/// Replaces the keybag and the device key, in steps that each leave a store that opens.
struct KeybagWriter: Sendable {
    let keys: KeyStore

    /// Replaces the keybag with the one that `change` returns. Tries again if another process has replaced it
    /// meanwhile.
    @discardableResult
    func rewrite(
        _ check: KeyStore.Check = .all,
        _ slotKeys: SlotKeys? = nil,
        _ change: (OpenedKeybag) throws -> KeybagRewrite?
    ) throws -> Bool {
        try keys.keybagMutex.withLock {
            let lock = try KeybagLock(keys.storage)
            defer { lock.release() }
            do { return try repeated(check, slotKeys, lock: lock, change) } catch let error as LockboxError
                where lock.hasBegun && error.code != .outcomeUnknown
            {
                // The first stage took effect, or another process has gone on from it. The error may even be about that: the
                // passcode is no longer the old one, for example.
                throw LockboxError.outcomeUnknown(
                    record: keys.reader.location,
                    reason: "the change had begun when it failed (\(error.problem))"
                )
            }
        }
    }

    /// Makes the change again each time that another process has replaced the keybag meanwhile.
    private func repeated(
        _ check: KeyStore.Check,
        _ slotKeys: SlotKeys?,
        lock: KeybagLock,
        _ change: (OpenedKeybag) throws -> KeybagRewrite?
    ) throws -> Bool {
        var conflicts = ConflictLimit()
        while true {
            try lock.take()
            // Nothing is written under a device key or a keybag that has gone.
            guard let own = try keys.load(slotKeys: slotKeys, check) else { throw keys.keybagIsMissing }
            let damaged = own.keyring.version.damaged
            if !damaged.isEmpty {
                try keys.reader.copies.restore(damaged, lock)
                try conflicts.check(.keybag, keys.storage)
                continue
            }
            let opened = try keys.withUserUnlock(own)
            guard var next = try keys.reader.mappingErrors({ try change(opened) }) else { return false }
            // Keys that came from the kernel continue to come from there.
            let isOwn = own.unlockKeys[.unlocked] != nil
            if !isOwn { next.slotKeys = nil }
            guard let device = try replace(opened, by: next, check, isOwn: isOwn, lock) else {
                try conflicts.check(.keybag, keys.storage)
                continue
            }
            if isOwn { try keepOpen(next.contents) }
            return !device.isEqual(to: opened.keybag.deviceKey)
        }
    }

    /// Keeps the store unlocked for this process if it has removed the slot that it was unlocked with.
    private func keepOpen(_ contents: KeybagContents) throws {
        guard let own = keys.opened, own.unlockKeys[.unlocked] == nil,
            let key = contents.unlockKeys[.unlocked]
        else { return }
        // Not if another process has replaced the keybag since.
        do { keys.keep(try own.adding(.unlocked, key)) } catch RecordError.notAuthentic {}
    }

    /// Replaces a keybag with another, in steps that each leave a store that opens. First the copies go, and after the last step they are
    /// made anew:
    ///
    /// 1. the next device key beside the current one;
    /// 2. the next keybag, which still seals with the current keys;
    /// 3. the next keybag, which seals with the next ones: now a power cut cannot bring back a keybag that lacks them;
    /// 4. the next device key alone.
    ///
    /// An unlock for the user's other processes stays in effect.
    ///
    /// - Parameters:
    ///   - check: The checks of the former one, which may be an older one that is accepted.
    ///   - isOwn: Whether this process has opened it itself, and not only with what the kernel had.
    /// - Returns: The device key, or nil if another process has replaced the keybag meanwhile.
    private func replace(
        _ opened: OpenedKeybag,
        by next: KeybagRewrite,
        _ check: KeyStore.Check,
        isOwn: Bool,
        _ lock: KeybagLock
    ) throws -> SecretKey? {
        let copies = keys.reader.copies
        guard try copies.remove(expecting: opened.keyring.revision, lock) else { return nil }
        do { return try exchange(opened, by: next, check: check, isOwn: isOwn, lock: lock) } catch let error
            as LockboxError
        {
            // On a full disk, for example. What may not be durable is not copied.
            if error.code != .outcomeUnknown { copies.make(of: keys.reader.copiedRecords, lock) }
            throw error
        }
    }

    private func exchange(
        _ opened: OpenedKeybag,
        by next: KeybagRewrite,
        check: KeyStore.Check,
        isOwn: Bool,
        lock: KeybagLock
    ) throws -> SecretKey? {
        guard let device = try beginDeviceKey(next.device, opened, lock) else { return nil }
        let nextKeys = UserUnlock.NextKeys(
            store: next.contents.storeID,
            device: device.key,
            unlockKeys: next.contents.slots.isEmpty ? [:] : next.contents.unlockKeys
        )
        let isNewEpoch = next.contents.epoch != opened.keybag.epoch
        let records = isNewEpoch ? try keys.userUnlock.records(of: opened.keybag) : []
        keys.userUnlock.announce(records, for: nextKeys)
        let stages = next.stages(after: opened.keybag)
        guard let written = try write(stages, next, opened.keyring.revision, device, lock) else {
            return nil
        }
        let isAccepted = check == .exceptRollback
        if isAccepted { try keys.known.accept(opened.keybag) }
        keys.known.learn(writing: stages[stages.count - 1], isOwn: isOwn, isAccepted: isAccepted)
        try endDeviceKey(device, written, lock)
        keys.reader.copies.make(of: keys.reader.copiedRecords, lock)
        // Refuses what does not follow the keybag that was written.
        try keys.load(slotKeys: next.slotKeys)
        if isNewEpoch { try keys.userUnlock.republish(records, for: nextKeys) }
        return device.key
    }

    /// Returns the keybag's new revision, or nil if another process has replaced it meanwhile.
    private func write(
        _ stages: [KeybagContents],
        _ next: KeybagRewrite,
        _ expected: RecordRevision,
        _ device: NextDeviceKey,
        _ lock: KeybagLock
    ) throws -> RecordRevision? {
        let record = RecordName.keybag
        var (expected, device) = (expected, device)
        for (stage, contents) in stages.enumerated() {
            let bytes = try contents.encoded(deviceKey: device.key)
            let changes =
                [.put(record, bytes)] + (stage == 0 ? keys.reader.device.changes(to: device.stored) : [])
            // No process changes the others while the lock is held.
            let expecting = [record: expected].merging(device.expected) { own, _ in own }
                .merging(next.expected) { own, _ in own }
            switch try lock.commit(changes, expecting: expecting) {
            case .committed:
                lock.hasBegun = true
                if keys.storage.limits.isTransactional { device.expected = [:] }
                // In a storage without locks, another process may have replaced it already.
                let found = try keys.storage.read([record], maximum: KeybagHeader.maximumRecordLength)[record]
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
        _ lock: KeybagLock
    ) throws -> NextDeviceKey? {
        let present = opened.keybag.deviceKey
        let found = try keys.reader.device.read()
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
            try keys.reader.device.checkIsKept()
        }
        next.key = try .random()
        next.stored = [next.key]
        if keys.storage.limits.isTransactional { return next }
        let expected = next.expected.merging([.keybag: opened.keyring.revision]) { $1 }
        let stored = isStored ? [next.key, present] : [next.key]
        guard let revision = try keys.reader.device.store(stored, expecting: expected, lock) else {
            return nil
        }
        next.expected = revision
        return next
    }

    /// - Parameter keybag: The revision of the next keybag. If another process has replaced that, it has its own device keys there.
    private func endDeviceKey(
        _ next: NextDeviceKey,
        _ keybag: RecordRevision,
        _ lock: KeybagLock
    ) throws {
        if let source = next.source { keys.reader.device.use(source) }
        guard let stored = next.stored, !keys.storage.limits.isTransactional else { return }
        let expected = next.expected.merging([.keybag: keybag]) { $1 }
        _ = try keys.reader.device.store(stored, expecting: expected, lock)
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
