import LockboxCore
import LockboxPlatform
import LockboxSodium

/// The slots of the keybag, and the secrets that open them.
extension KeyStore {
    var slots: [KeybagSlot] {
        get throws { try keyring(creating: false) == nil ? [] : own().keybag.slots }
    }

    /// Nil if there is no store.
    func status() throws -> StoreStatus? {
        guard try keyring(creating: false) != nil else { return nil }
        let keybag = try own().keybag
        let scope = try unlockScope
        let record = try userUnlock.records(of: keybag).map(\.record).first {
            $0.level == .unlocked && $0.deadline > 0
        }
        return StoreStatus(
            identity: keybag.storeID.hexadecimal,
            generation: keybag.generation,
            epoch: keybag.epoch,
            olderEpochs: keybag.epochs.filter { $0 < keybag.epoch }.sorted(),
            isInterrupted: try isInterrupted(),
            slots: keybag.slots.map(UnlockSlot.init),
            unlockScope: scope,
            unlockedUntil: scope == .user
                ? record.map { Date(timeIntervalSince1970: Double($0.deadline)) } : nil
        )
    }

    /// Asks the method for the secret of a slot: first of those that open all classes. Runs Argon2id, if it is a passcode.
    ///
    /// - Throws: ``LockboxError/wrongPasscode`` if it is no slot's secret.
    func slotKeys(_ method: any UnlockMethod, of keybag: Keybag) throws -> SlotKeys {
        let slots = keybag.slots.filter { $0.kind == method.kind }
        if slots.isEmpty { throw noSlot(method.kind) }
        var failures: [any Error] = []
        for slot in slots.filter(\.opensAll) + slots.filter({ !$0.opensAll }) {
            do {
                let keys = try slotKeys(method, of: slot, keybag.storeID)
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

    private func slotKeys(_ method: any UnlockMethod, of slot: KeybagSlot, _ store: StoreID) throws
        -> SlotKeys
    {
        if slot.kind == .passcode { derivations.withLock { $0 += 1 } }
        var secret = try method.secret(slot.parameters, salt: slot.salt)
        defer { Sodium.wipe(&secret) }
        return try SlotKeys(
            secret: Self.key(secret),
            slot: slot.id,
            store: store,
            levels: KeybagSlot.levels(opensAll: slot.opensAll)
        )
    }

    private static func key(_ secret: [UInt8]) throws -> SecretKey {
        guard (32...64).contains(secret.count) else {
            throw LockboxError.invalidPasscode(
                reason: "the secret of a slot has 32 to 64 bytes, not \(secret.count)"
            )
        }
        return try SecretKey(count: secret.count) { $0.copyBytes(from: secret) }
    }

    /// A slot that is to be added, and the keys that open it.
    struct NewSlot {
        let slot: KeybagContents.Slot
        let keys: SlotKeys
    }

    /// Asks the method for a new secret. Runs Argon2id, if it is a passcode.
    func makeSlot(_ method: any UnlockMethod, label: String, opensAll: Bool, _ store: StoreID) throws
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
        var id = KeybagSlot.ID()
        withUnsafeMutableBytes(of: &id) { Sodium.fillRandom($0) }
        let levels = KeybagSlot.levels(opensAll: opensAll)
        let keys = try SlotKeys(secret: Self.key(enrollment.secret), slot: id, store: store, levels: levels)
        var authentication: [UnlockLevel: SecretKey] = [:]
        for level in levels { authentication[level] = try keys.authentication(level) }
        let slot = KeybagSlot(
            id: id,
            kind: method.kind,
            label: label,
            created: Date(),
            salt: salt,
            parameters: enrollment.parameters,
            // Sealed when the keybag is written.
            grants: try levels.compactMap { level in
                try keys.pair(level).map { .init(level: level, publicKey: $0.publicKey, box: []) }
            }
        )
        return NewSlot(slot: .init(slot: slot, authentication: authentication), keys: keys)
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
