@_spi(Extensions) public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// The accessibility classes that are open now.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public var lockState: LockState {
        get throws { try keyStore.lockState }
    }

    /// Unlocks the store: for this backend only, or for every process of the user.
    ///
    /// An unlock runs Argon2id once, with the strength that the passcode was set with. Reading and writing items do not run
    /// it. A wrong passcode costs as much as the right one. There is no lockout after wrong attempts: an attacker with the
    /// files and the device key guesses on a copy, where attempts are not counted, so a lockout would only affect the owner.
    ///
    /// With the scope ``UnlockScope/user``, the keys are kept in the user's keyring in the Linux kernel, where
    /// every backend on this store in any of the user's processes finds them. If the kernel refuses, as in many
    /// containers, the store is unlocked for this backend only, and the result is ``UnlockScope/process``.
    ///
    /// ```swift
    /// import Lockbox
    ///
    /// let backend = EncryptedFileBackend.default
    /// if try backend.unlock(.standard, scope: .user, timeout: .seconds(8 * 60 * 60)) == .process {
    ///     print("Every program has to unlock for itself on this machine.")
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - passcode: The source of the passcode.
    ///   - scope: The processes to unlock the store for.
    ///   - timeout: With the scope ``UnlockScope/user``, the time after which the kernel drops all keys except
    ///     those of the `afterFirstUnlock` classes, in whole seconds and at least one. If `nil`, they stay
    ///     until a lock or a restart of the machine. If the kernel refuses the keys, the timeout has no effect,
    ///     and this backend stays unlocked until it is locked.
    /// - Returns: The processes for which the store is unlocked.
    /// - Throws: ``LockboxError/wrongPasscode``; ``LockboxError/passcodeNotSet`` if the store has no passcode (another
    ///   store may have been put in its place); ``LockboxError/invalidPasscode(reason:)`` if the source returns no valid passcode;
    ///   ``LockboxError/notEnoughMemory(bytes:)``.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func unlock(_ passcode: PasscodeSource, scope: UnlockScope = .process, timeout: Duration? = nil)
        throws
        -> UnlockScope
    {
        try unlock(with: .passcode(passcode), scope: scope, timeout: timeout, after: nil)
    }

    /// Unlocks the store with a recovery code, a key, or hardware.
    ///
    /// - Parameters:
    ///   - method: The method that opens one of the store's slots.
    ///   - scope: The processes to unlock the store for.
    ///   - timeout: See `unlock(_:scope:timeout:)`.
    /// - Returns: The processes for which the store is unlocked.
    /// - Throws: ``LockboxError/wrongPasscode`` if the secret opens no slot; ``LockboxError/slotNotFound(slot:)`` if the
    ///   store has no slot of this kind; any error of the method.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func unlock(with method: any UnlockMethod, scope: UnlockScope = .process, timeout: Duration? = nil)
        throws
        -> UnlockScope
    {
        try unlock(with: method, scope: scope, timeout: timeout, after: nil)
    }

    /// The same, of a store that was just looked at: its keybag need not be read again before the method is asked.
    @_spi(Extensions)
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func unlock(
        with method: any UnlockMethod,
        scope: UnlockScope,
        timeout: Duration?,
        after status: StoreStatus?
    ) throws -> UnlockScope {
        let reached = try keyStore.unlock(method, scope: scope, timeout: timeout, after: status)
        keyChanges.endFirstSlot()
        return reached
    }

    /// Locks the store: wipes the keys of the `whenUnlocked` classes and of `whenPasscodeSetThisDeviceOnly`
    /// from this process's and the kernel's memory.
    ///
    /// The user's other processes lose these keys too, unless they have unlocked the store for themselves. The
    /// `always` classes stay open.
    ///
    /// Without a passcode, the call does nothing. Calls in progress on other threads are completed.
    ///
    /// - Parameter includingAfterFirstUnlock: Whether to wipe the keys of the `afterFirstUnlock` classes too,
    ///   as a restart of the machine does. Otherwise they stay in this process until it ends, and in the kernel
    ///   until the next restart.
    /// - Throws: ``LockboxError/storageFailure(operation:path:errno:explanation:)`` if the kernel's keys cannot be removed.
    ///   The same error is thrown if another process holds the keybag's lock for 30 seconds without progress, because it
    ///   may put the keys back. The keys of this process are wiped in any case.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func lock(includingAfterFirstUnlock: Bool = false) throws {
        try keyStore.lock(includingAfterFirstUnlock: includingAfterFirstUnlock)
    }

    /// Sets the passcode of a store that has none. The store is then unlocked. Creates the store if there is none.
    ///
    /// Creates a new device key (if the store keeps it), new unlock keys and new class keys, and reseals every item. Copies
    /// made before the call, such as a keybag that opened without a passcode, cannot open items written after it. Once
    /// resealing is complete, they cannot open any item in the store.
    ///
    /// - Parameters:
    ///   - passcode: The source of the passcode: 1 to 1,024 bytes.
    ///   - strength: The cost of each unlock and each guess.
    ///   - resealing: Whether to reseal all items now. If `false`, `rotateKeys(newDeviceKey:)` does it later.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/passcodeAlreadySet``; ``LockboxError/invalidPasscode(reason:)``;
    ///   ``LockboxError/notEnoughMemory(bytes:)``.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func setPasscode(
        _ passcode: PasscodeSource,
        strength: PasscodeStrength = .moderate,
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        try makeRoomForKeys()
        let hasNewDeviceKey = try keyChanges.setPasscode(passcode, strength: strength)
        return resealAfterChange(hasNewDeviceKey, resealing: resealing, progress: progress)
    }

    /// Changes the passcode of an unlocked store.
    ///
    /// Creates new keys and reseals every item, so that the old passcode cannot open items written after the call.
    /// Processes that unlocked the store with the old passcode need the new one for these items; an unlock for every
    /// process of the user stays in effect.
    ///
    /// - Parameters:
    ///   - old: The source of the current passcode, which is checked. If `nil`, an unlocked store is enough: its keys are
    ///     in memory, and they open everything that the passcode protects. Ask for the current passcode if another person
    ///     may be using a program that was left unlocked.
    ///   - passcode: The source of the new passcode: 1 to 1,024 bytes.
    ///   - strength: The cost of each unlock and each guess.
    ///   - resealing: Whether to reseal all items now. If `false`, `rotateKeys(newDeviceKey:)` does it later.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/passcodeNotSet``; ``LockboxError/wrongPasscode``; ``LockboxError/conflict(record:)`` if another process
    ///   has changed it meanwhile;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the store is locked; ``LockboxError/invalidPasscode(reason:)``;
    ///   ``LockboxError/notEnoughMemory(bytes:)``.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func changePasscode(
        from old: PasscodeSource? = nil,
        to passcode: PasscodeSource,
        strength: PasscodeStrength = .moderate,
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        try makeRoomForKeys()
        let hasNewDeviceKey = try keyChanges.changePasscode(from: old, to: passcode, strength: strength)
        return resealAfterChange(hasNewDeviceKey, resealing: resealing, progress: progress)
    }

    /// Removes the passcode of an unlocked store. If it has no other slot, it is then always open.
    ///
    /// First destroys the keys of `whenPasscodeSetThisDeviceOnly`, so that no copy of that class's items opens with the new
    /// keybag. Then removes these items, and reseals all others. If the call is interrupted in between,
    /// reading one of these items throws ``LockboxError/corrupt(record:reason:)``. The next call removes them, even
    /// though it throws ``LockboxError/passcodeNotSet``.
    ///
    /// - Parameters:
    ///   - old: The source of the current passcode, which is checked. If `nil`, an unlocked store is enough.
    ///   - otherSlots: Whether to remove all other slots too.
    ///   - resealing: Whether to reseal all items now. If `false`, `rotateKeys(newDeviceKey:)` does it later.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/passcodeNotSet``; ``LockboxError/wrongPasscode``; ``LockboxError/conflict(record:)`` if another process
    ///   has changed it meanwhile; ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func removePasscode(
        _ old: PasscodeSource? = nil,
        includingOtherSlots otherSlots: Bool = false,
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        try makeRoomForKeys()
        let hasNewDeviceKey: Bool
        do { hasNewDeviceKey = try keyChanges.removePasscode(old, otherSlots: otherSlots) } catch LockboxError
            .passcodeNotSet
        {
            try remover.removeUnopenableItems(of: .whenPasscodeSetThisDeviceOnly)
            throw LockboxError.passcodeNotSet
        }
        try remover.removeUnopenableItems(of: .whenPasscodeSetThisDeviceOnly)
        return resealAfterChange(hasNewDeviceKey, resealing: resealing, progress: progress)
    }
}

extension SealedBackend {
    /// Returns what is known of the store's keys without an unlock, or `nil` if there is no store yet. Reads the keybag once.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func status() throws -> StoreStatus? { try keyStore.status() }

    /// Adds a recovery code: a slot for use when the passcode is forgotten or the hardware is lost. It opens all classes.
    ///
    /// Create the code, show it once, and ask for it back, to make sure that it was written down:
    ///
    /// ```swift
    /// import Lockbox
    ///
    /// let code = RecoveryCode()
    /// print("Write this down:", code.text)
    /// try EncryptedFileBackend.default.addRecoveryCode(code, confirmation: .closure { Array((readLine() ?? "").utf8) })
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
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func addRecoveryCode(
        _ code: RecoveryCode,
        confirmation: PasscodeSource,
        label: String = "",
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        let typed = try confirmation.withBytes { try RecoveryCode(typed: $0) }
        if !typed.isSame(as: code) { throw LockboxError.wrongPasscode }
        try makeRoomForKeys()
        let hasNewDeviceKey = try keyChanges.addSlot(
            .recoveryCode(known: code),
            label: label,
            opensAllClasses: true
        )
        return resealAfterChange(hasNewDeviceKey, resealing: resealing, progress: progress)
    }

    /// Adds a slot: a key in a file, or hardware. The store must have a recovery code, because these can be lost.
    ///
    /// Like every change of the slots, creates new keys and reseals every item.
    ///
    /// - Parameters:
    ///   - method: The method that opens the slot.
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
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
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
        let hasNewDeviceKey = try keyChanges.addSlot(method, label: label, opensAllClasses: opensAllClasses)
        return resealAfterChange(hasNewDeviceKey, resealing: resealing, progress: progress)
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
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func removeSlot(
        _ id: UnlockSlot.ID,
        resealing: Bool = true,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        guard try keyStore.ownIfMade()?.keybag.slots.contains(where: { $0.id.hexadecimal == id }) ?? false
        else { throw LockboxError.slotNotFound(slot: id) }
        try makeRoomForKeys()
        let removed = try keyChanges.removeSlot(named: id)
        if removed.kind == .passcode { try remover.removeUnopenableItems(of: .whenPasscodeSetThisDeviceOnly) }
        return resealAfterChange(removed.hasNewDeviceKey, resealing: resealing, progress: progress)
    }

    /// Accepts a store that was restored from an older copy, such as a backup of the machine or a snapshot, or that was replaced or
    /// removed.
    ///
    /// The keybag of a restored store is older than the one that was seen last, and every call throws
    /// ``LockboxError/rolledBack(record:reason:)``; where this user has unlocked another store, calls throw that,
    /// ``LockboxError/storeReplaced(location:)`` or ``LockboxError/authenticationFailed(record:)``. Call this only if you know who
    /// put it there. It creates new keys and reseals every item.
    ///
    /// - Parameters:
    ///   - method: The method that unlocks the store. Not needed if the device key alone opens it.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and those that could not be resealed.
    /// - Throws: ``LockboxError/wrongPasscode``; ``LockboxError/interactionNotAllowed(_:)`` if the store has slots, and no
    ///   method is given; ``LockboxError/storeNotFound(location:)``.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func acceptRestored(
        _ method: (any UnlockMethod)? = nil,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> RotationReport {
        guard let hasNewDeviceKey = try keyChanges.acceptRestored(method) else { return RotationReport() }
        return resealAfterChange(hasNewDeviceKey, resealing: true, progress: progress)
    }
}
