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
        var id = KeybagSlot.ID()
        withUnsafeMutableBytes(of: &id) { Sodium.fillRandom($0) }
        let levels = KeybagSlot.levels(opensAllClasses: opensAllClasses)
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
