public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// The slots of the store's keybag: everything that unlocks the store. Empty if the device key alone opens it.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    public var slots: [UnlockSlot] {
        get throws { try keys.slots.map(UnlockSlot.init) }
    }

    /// The random ID of the store, in 32 hexadecimal digits, for ``StoreRequirements/identity``. `nil` if there is no
    /// store yet.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    public var identity: String? {
        get throws { try keys.keyring(creating: false) == nil ? nil : keys.own().keybag.storeID.hexadecimal }
    }

    /// Returns what is known of the store's keys without an unlock, or `nil` if there is no store yet.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    public func status() throws -> StoreStatus? { try keys.status() }

    /// Adds a recovery code: a slot for use when the passcode is forgotten or the hardware is lost. It opens all classes.
    ///
    /// Create the code, show it once, and ask for it back, to make sure that it was written down:
    ///
    /// ```swift
    /// import Lockbox
    ///
    /// let code = RecoveryCode()
    /// print("Write this down:", code.text)
    /// try EncryptedFileBackend.default.addRecoveryCode(code, confirmation: .closure { readLine() ?? "" })
    /// ```
    ///
    /// Like every change of the slots, creates new keys and reseals every item.
    ///
    /// - Parameters:
    ///   - code: The new code.
    ///   - confirmation: The code, as it was typed back.
    ///   - label: A name for people, at most 256 bytes of UTF-8.
    ///   - resealing: Whether to reseal all items now. If `false`, `rotateKeys(newDeviceKey:)` does it later.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/wrongPasscode`` if the confirmation is another code;
    ///   ``LockboxError/invalidPasscode(reason:)`` if it is mistyped; ``LockboxError/slotRefused(reason:)`` if there are 32
    ///   slots, or the label has more than 256 bytes; ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    @discardableResult
    public func addRecoveryCode(
        _ code: RecoveryCode,
        confirmation: PasscodeSource,
        label: String = "",
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        let typed = try confirmation.withBytes { try RecoveryCode(typed: $0) }
        if typed != code { throw LockboxError.wrongPasscode }
        let method = RecoveryCodeUnlock(known: code)
        try makeRoomForKeys()
        let hasNewDeviceKey = try keys.addSlot(method, label: label, opensAllClasses: true)
        return resealAfterChange(hasNewDeviceKey, resealing: resealing, progress)
    }

    /// Adds a slot: a key in a file, or hardware. The store must have a recovery code, because these can be lost.
    ///
    /// Like every change of the slots, creates new keys and reseals every item.
    ///
    /// - Parameters:
    ///   - method: What opens the slot.
    ///   - label: A name for people, at most 256 bytes of UTF-8.
    ///   - opensAllClasses: Whether the slot opens all classes. By default it opens the `afterFirstUnlock` classes, which is
    ///     enough for a service that starts without a person.
    ///   - resealing: Whether to reseal all items now. If `false`, `rotateKeys(newDeviceKey:)` does it later.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/slotRefused(reason:)`` if there is no recovery code, if there are 32 slots, if the label has
    ///   more than 256 bytes, or if the key is the device key; ``LockboxError/interactionNotAllowed(_:)`` if the store is
    ///   locked; any error of the method.
    @discardableResult
    public func addSlot(
        _ method: any UnlockMethod,
        label: String,
        opensAllClasses: Bool = false,
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        if method.kind == .recoveryCode {
            throw LockboxError.slotRefused(
                reason: "a recovery code has to be typed back; use addRecoveryCode"
            )
        }
        try makeRoomForKeys()
        let hasNewDeviceKey = try keys.addSlot(method, label: label, opensAllClasses: opensAllClasses)
        return resealAfterChange(hasNewDeviceKey, resealing: resealing, progress)
    }

    /// Removes a slot. Its secret and copies of the keybag cannot open items written after the call.
    ///
    /// Like every change of the slots, creates new keys and reseals every item. For the passcode's slot, does the same as
    /// `removePasscode(_:)`.
    ///
    /// - Parameters:
    ///   - id: The slot's ID.
    ///   - resealing: Whether to reseal all items now. If `false`, `rotateKeys(newDeviceKey:)` does it later.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/slotNotFound(slot:)``; ``LockboxError/slotRefused(reason:)`` if it is the only recovery
    ///   code of a store that hardware or a key also unlocks; ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    @discardableResult
    public func removeSlot(
        _ id: UnlockSlot.ID,
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        guard let slot = try keys.slots.first(where: { $0.id.hexadecimal == id }) else {
            throw LockboxError.slotNotFound(slot: id)
        }
        if slot.kind == .passcode { return try removePasscode(resealing: resealing, progress: progress) }
        try makeRoomForKeys()
        return try resealAfterChange(keys.removeSlot(slot.id, named: id), resealing: resealing, progress)
    }

    /// Accepts a store that was restored from an older copy, such as a backup of the machine or a snapshot.
    ///
    /// The keybag of such a store is older than the one that was seen last, and every call throws
    /// ``LockboxError/rolledBack(record:reason:)``. Call this only if you know who restored the copy. It creates new keys
    /// and reseals every item.
    ///
    /// - Parameters:
    ///   - method: What unlocks the store. Not needed if the device key alone opens it.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/wrongPasscode``; ``LockboxError/interactionNotAllowed(_:)`` if the store has slots, and no
    ///   method is given.
    @discardableResult
    public func acceptRestored(
        _ method: (any UnlockMethod)? = nil,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        try resealAfterChange(keys.acceptRestored(method), resealing: true, progress)
    }
}
