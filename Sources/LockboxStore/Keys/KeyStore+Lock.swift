@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// Passcode, lock and unlock: which keys are open, and for which processes.
extension KeyStore {
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
            let known = opened.flatMap { $0.keybag.generation == status?.generation ? $0 : nil }
            status = nil
            guard let own = try known ?? ownIfMade() else { throw noSlot(method.kind) }
            let keys = try slotKeys(method, of: own.keybag)
            let reached = try keybagMutex.withLock { () -> UnlockScope? in
                // Neither does anything if another process has removed the slot meanwhile.
                if scope == .user, try unlockForUser(keys, timeout) { return .user }
                return try load(slotKeys: keys)?.slotKeys?.slot == keys.slot ? .process : nil
            }
            if let reached {
                endFirstSlot()
                return reached
            }
        }
    }

    /// Asks the method for the secret of a slot: first of those that open all classes. Runs Argon2id, if it is a passcode.
    ///
    /// - Throws: ``LockboxError/wrongPasscode`` if it is no slot's secret.
    func slotKeys(_ method: any UnlockMethod, of keybag: Keybag) throws -> SlotKeys {
        let slots = keybag.slots.filter { $0.kind == method.kind }
        if slots.isEmpty { throw noSlot(method.kind) }
        var failures: [any Error] = []
        for slot in slots.filter(\.opensAllClasses) + slots.filter({ !$0.opensAllClasses }) {
            do {
                if slot.kind == .passcode { derivations.withLock { $0 += 1 } }
                var secret = try method.deriveSecret(slot.parameters, salt: slot.salt)
                defer { Sodium.wipe(&secret) }
                let keys = try slot.keys(Self.key(secret), keybag.storeID)
                if try slot.fits(keys) { return keys }
            } catch {
                // Another slot may be of another chip or key.
                failures.append(error)
            }
        }
        // A chip or key that knows the slot says more than one that does not.
        let answer = failures.first { [.wrongPasscode, .accessDenied].contains(($0 as? LockboxError)?.code) }
        throw answer ?? failures.last ?? LockboxError.wrongPasscode
    }

    func noSlot(_ kind: SlotKind) -> LockboxError {
        kind == .passcode ? .passcodeNotSet : .slotNotFound(slot: kind.description)
    }

    static func key(_ secret: [UInt8]) throws -> SecretKey {
        guard (32...64).contains(secret.count) else {
            throw LockboxError.invalidPasscode(
                reason: "the secret of a slot has 32 to 64 bytes, not \(secret.count)"
            )
        }
        return try SecretKey(count: secret.count) { $0.copyBytes(from: secret) }
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
        let contents = try mappingErrors(of: Self.keybagRecord) {
            try own.keybag.open(own.keybag.unlockKeys(with: keys))
        }
        let unlockKeys = contents.unlockKeys
        if unlockKeys.isEmpty { return false }
        let isComplete = contents.isComplete
        trust(own.keybag, unlockKeys, isComplete: isComplete, isOwn: false, isProven: isComplete)
        if contents.isComplete { remember(own.keybag) }
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

    /// Waits for the keybag's lock. Returns nil if this process has no permission to write.
    func lockIfAllowed() throws -> (any StorageLock)? {
        do { return try storage.lock(nil) } catch let error as LockboxError where error.code == .readOnly {
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

    /// Wipes the keys that this process has. A store that cannot be opened, or is refused, may still be unlocked in the
    /// kernel.
    private func storeToLock(_ levels: [UnlockLevel]) throws -> StoreID? {
        do { return try forget(levels)?.keybag.storeID } catch {
            guard let store = try? storeIDInHeader() else { throw error }
            // This process may have keys that it could not wipe, the store may be another one than the program requires, or its
            // identity may be damaged.
            let isOther = (error as? LockboxError)?.code == .requirementNotMet
            if try userUnlock.remove(store, levels), opened == nil, !isOther { return store }
            throw error
        }
    }

    /// Reads nothing if there are keys to wipe, so that no read error can prevent it.
    private func forget(_ levels: [UnlockLevel]) throws -> OpenedKeybag? {
        forgetUserKeys()
        // Another process may have set a passcode meanwhile.
        if opened?.keybag.slots.isEmpty ?? true { _ = try loadIfMade(.all) }
        guard let opened = opened, !opened.keybag.slots.isEmpty else {
            return opened
        }
        let kept = try mappingErrors(of: Self.keybagRecord) { try opened.without(levels) }
        keep(kept)
        return kept
    }
}

/// Uses the keys that the user has unlocked for every process.
extension KeyStore {
    /// Returns the keybag with those keys, unless all keys are open anyway. Waits for no other process.
    ///
    /// - Parameter isCurrent: Whether the keybag was just read, or found to be the current one.
    func withUserUnlock(_ own: OpenedKeybag, isCurrent: Bool = true) throws -> OpenedKeybag {
        if own.keyring.isComplete { return own }
        var seen: [UserUnlock.Found] = []
        while true {
            var (found, opened): ([UserUnlock.Found], OpenedKeybag?) = ([], nil)
            for record in userUnlock.find(for: own.keyring) {
                found.append(record)
                opened = try open(record, own, isCurrent: isCurrent && seen.isEmpty)
                if opened != nil { break }
            }
            // While another process rewrites the keybag, it replaces the records too, and the best one may have
            // been missed.
            if let opened, found.count == 1 || opened.keyring.isComplete { return opened }
            if found == seen {
                if opened == nil { forgetUserKeys() }
                return opened ?? own
            }
            seen = found
        }
    }

    /// Returns nil if the record opens nothing.
    private func open(_ record: UserUnlock.Found, _ own: OpenedKeybag, isCurrent: Bool) throws
        -> OpenedKeybag?
    {
        if let known = known(record, own.keyring) { return known.opened }
        func outcome(_ own: OpenedKeybag) throws -> UserRecords.Outcome? {
            try mappingErrors(of: Self.keybagRecord) { try userUnlock.open(own, record) }
        }
        var (own, found) = (own, isCurrent ? try outcome(own) : nil)
        if found?.opened == nil {
            // A new record may belong to a new keybag.
            own = try self.own()
            found = try outcome(own)
        }
        guard let found else { return nil }
        guard let opened = found.opened, isTrusted(opened) else {
            keep(.init(record: record), own.keyring)
            return nil
        }
        trust(opened.keybag, opened.unlockKeys, isComplete: opened.isComplete, isOwn: false, isProven: false)
        keep(found, own.keyring)
        return opened
    }

    /// The keybag that a record is known to open. Wipes the keys of a record whose time is over.
    private func known(_ record: UserUnlock.Found, _ own: Keyring) -> UserRecords.Outcome? {
        userRecords.withLock { records in
            guard records?.own === own else { return nil }
            records?.outcomes.removeAll { UserUnlock.isOver($0.deadline) }
            return records?.outcomes.first { $0.record == record }
        }
    }

    private func keep(_ outcome: UserRecords.Outcome, _ own: Keyring) {
        userRecords.withLock { records in
            var new = records.flatMap { $0.own === own ? $0 : nil } ?? UserRecords(own: own)
            // Wipes the keys of the record used before.
            if outcome.opened != nil { new.outcomes.removeAll { $0.opened != nil } }
            new.outcomes.append(outcome)
            records = new
        }
    }

    func forgetUserKeys() {
        userRecords.withLock { $0?.outcomes.removeAll { $0.opened != nil } }
    }
}

/// The slots of the keybag, and the secrets that open them.
extension KeyStore {
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

    /// A slot that is to be added, and the keys that open it.
    struct NewSlot {
        let slot: KeybagContents.Slot
        let keys: SlotKeys
    }

    /// Asks the method for a new secret. Runs Argon2id, if it is a passcode.
    func makeSlot(_ method: any UnlockMethod, label: String, opensAllClasses: Bool, _ store: StoreID) throws
        -> NewSlot
    {
        if method.kind == .passcode { derivations.withLock { $0 += 1 } }
        guard label.utf8.count <= KeybagSlot.maximumLabelLength else {
            throw LockboxError.slotRefused(
                reason: "its label has more than \(KeybagSlot.maximumLabelLength) bytes"
            )
        }
        let salt = Sodium.randomBytes(KeybagSlot.saltLength)
        var enrollment = try method.enroll(salt: salt)
        defer { Sodium.wipe(&enrollment.secret) }
        guard enrollment.parameters.count <= SlotEnrollment.maximumParametersLength else {
            throw LockboxError.slotRefused(
                reason: "it has \(enrollment.parameters.count) bytes of parameters; the limit is "
                    + "\(SlotEnrollment.maximumParametersLength)"
            )
        }
        let id = KeybagSlot.ID.random()
        let levels = KeybagSlot.levels(opensAllClasses: opensAllClasses)
        let keys = try SlotKeys(secret: Self.key(enrollment.secret), slot: id, store: store, levels: levels)
        var authentication: [UnlockLevel: SecretKey] = [:]
        for level in levels { authentication[level] = try keys.authentication(level) }
        let slot = KeybagSlot(
            id: id,
            kind: method.kind,
            label: label,
            created: world.date,
            salt: salt,
            parameters: enrollment.parameters,
            // Sealed when the keybag is written.
            grants: try levels.compactMap { level in
                try keys.pair(level).map { .init(level: level, publicKey: $0.publicKey, box: []) }
            }
        )
        return NewSlot(slot: .init(slot: slot, authentication: authentication), keys: keys)
    }

    // MARK: The device key is no slot's key

    func checkIsNoDeviceKey(_ slot: KeybagSlot, _ keybag: Keybag) throws {
        guard try slot.isOpened(byDeviceKey: keybag.deviceKey, keybag.storeID) else { return }
        throw LockboxError.slotRefused(
            reason: "its key is the device key, which every program that uses the store has; make another one"
        )
    }

    /// - Throws: ``LockboxError/invalidDeviceKey(source:reason:)`` if a new device key is the key of a slot.
    func checkIsNoSlotsKey(_ source: DeviceKeySource, _ keybag: Keybag) throws {
        guard let key = try source.given() else { return }
        for slot in keybag.slots where try slot.isOpened(by: key, keybag.storeID) {
            throw LockboxError.invalidDeviceKey(
                source: "the new device key",
                reason: "it is the key of a slot, and would open the store alone; make another one"
            )
        }
    }
}

extension KeybagContents {
    /// Throws if the slots could lock the owner out, or if there are too many.
    func checkSlots() throws {
        let all = slots.map(\.slot)
        func refuse(_ reason: String) throws -> Never { throw LockboxError.slotRefused(reason: reason) }
        if all.count > Keybag.maximumSlots { try refuse("a store has at most \(Keybag.maximumSlots) slots") }
        let hasRecoveryCode = all.contains { $0.kind == .recoveryCode }
        let needsRecoveryCode = all.contains { $0.kind != .recoveryCode && $0.kind != .passcode }
        if needsRecoveryCode, !hasRecoveryCode {
            try refuse("keep a recovery code, because a key or hardware can be lost")
        }
    }
}
