@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// The slots of a keybag, and the secrets that open them.
struct Slots: Sendable {
    /// Counts the runs of Argon2id, for tests.
    let derivations = Protected(0)

    // MARK: Opening

    /// Asks the method for the secret of a slot: first of those that open all classes. Runs Argon2id, if it is a passcode.
    ///
    /// - Throws: ``LockboxError/wrongPasscode`` if it is no slot's secret.
    func keys(_ method: any UnlockMethod, of keybag: Keybag) throws -> SlotKeys {
        let slots = keybag.slots.filter { $0.kind == method.kind }
        if slots.isEmpty { throw method.kind.missing }
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

    static func key(_ secret: [UInt8]) throws -> SecretKey {
        guard (32...64).contains(secret.count) else {
            throw LockboxError.invalidPasscode(
                reason: "the secret of a slot has 32 to 64 bytes, not \(secret.count)"
            )
        }
        return try SecretKey(count: secret.count) { $0.copyBytes(from: secret) }
    }

    // MARK: Adding

    /// A slot that is to be added, and the keys that open it.
    struct New {
        let slot: KeybagContents.Slot
        let keys: SlotKeys
    }

    /// Asks the method for a new secret. Runs Argon2id, if it is a passcode.
    func make(_ method: any UnlockMethod, label: String, opensAllClasses: Bool, _ store: StoreID) throws
        -> New
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
        return New(slot: .init(slot: slot, authentication: authentication), keys: keys)
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

extension SlotKind {
    /// The error if a store has no such slot.
    var missing: LockboxError { self == .passcode ? .passcodeNotSet : .slotNotFound(slot: description) }
}
