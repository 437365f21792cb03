public import LockboxCore

extension SealedBackend {
    /// The accessibility classes that are open now.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    public var lockState: LockState {
        get throws { try keys.lockState }
    }

    /// Whether the system keeps all open keys out of swap space.
    ///
    /// The system limits how much memory can be locked into RAM (`ulimit -l`). Keys beyond that limit are still
    /// in guarded memory and left out of core dumps.
    public var isLockedIntoMemory: Bool { keys.isLockedIntoMemory }

    /// Whom the store is unlocked for, or `nil` if it is locked or has no passcode.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    public var unlockScope: UnlockScope? {
        get throws { try keys.unlockScope }
    }

    /// Unlocks the store: for this backend only, or for every process of the user.
    ///
    /// An unlock runs Argon2id once, with the strength that the passcode was set with. No other operation runs
    /// it again. A wrong passcode costs as much. There is no lockout after wrong attempts: an attacker with the
    /// files and the device key guesses on a copy, where attempts are not counted, so a lockout would only
    /// affect the owner.
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
    /// A store without a passcode is always open; the call then does nothing.
    ///
    /// - Parameters:
    ///   - passcode: The source of the passcode.
    ///   - scope: Whom to unlock the store for.
    ///   - timeout: With the scope ``UnlockScope/user``, the time after which the kernel drops all keys except
    ///     those of the `afterFirstUnlock` classes, in whole seconds and at least one. If `nil`, they stay
    ///     until a lock or a restart of the machine. If the kernel refuses the keys, the timeout has no effect,
    ///     and this backend stays unlocked until it is locked.
    /// - Returns: Whom the store is unlocked for.
    /// - Throws: ``LockboxError/wrongPasscode``; ``LockboxError/invalidPasscode(reason:)`` if the source
    ///   returns no valid passcode; ``LockboxError/notEnoughMemory(bytes:)``.
    @discardableResult
    public func unlock(_ passcode: PasscodeSource, scope: UnlockScope = .process, timeout: Duration? = nil)
        throws
        -> UnlockScope
    {
        try keys.unlock(passcode, scope: scope, timeout: timeout)
    }

    /// Locks the store: wipes the keys of the `whenUnlocked` classes and of `whenPasscodeSetThisDeviceOnly`
    /// from this process's and the kernel's memory.
    ///
    /// The user's other processes lose these keys too, unless they have unlocked the store themselves. The
    /// `always` classes stay open.
    ///
    /// Without a passcode, the call does nothing. Calls in progress on other threads are completed.
    ///
    /// - Parameter includingAfterFirstUnlock: Whether to wipe the keys of the `afterFirstUnlock` classes too,
    ///   as a restart of the machine does. Otherwise they stay in this process until it ends, and in the kernel
    ///   until the next restart.
    /// - Throws: ``LockboxError/storageFailure(operation:path:errno:)`` if the kernel's keys cannot be removed.
    ///   Also if another process is rewriting the keybag for too long, because it may restore them. The keys of
    ///   this process are wiped in any case.
    public func lock(includingAfterFirstUnlock: Bool = false) throws {
        try keys.lock(includingAfterFirstUnlock: includingAfterFirstUnlock)
    }

    /// Sets the passcode of a store that has none. The store is then unlocked.
    ///
    /// Only the keybag is rewritten, however many items there are. Copies of the old keybag still open without
    /// a passcode.
    ///
    /// - Parameters:
    ///   - passcode: The source of the passcode: 1 to 1,024 bytes.
    ///   - strength: The cost of each unlock and each guess.
    /// - Throws: ``LockboxError/passcodeAlreadySet``; ``LockboxError/invalidPasscode(reason:)``;
    ///   ``LockboxError/notEnoughMemory(bytes:)``.
    public func setPasscode(_ passcode: PasscodeSource, strength: PasscodeStrength = .moderate) throws {
        try keys.setPasscode(passcode, strength: strength)
    }

    /// Changes the passcode of an unlocked store.
    ///
    /// Only the keybag is rewritten. Copies of the old keybag still open with the old passcode.
    ///
    /// The old passcode is not required: an unlocked store's keys are in memory, and they open everything that
    /// the passcode protects.
    ///
    /// - Parameters:
    ///   - passcode: The source of the new passcode: 1 to 1,024 bytes.
    ///   - strength: The cost of each unlock and each guess.
    /// - Throws: ``LockboxError/passcodeNotSet``; ``LockboxError/interactionNotAllowed(_:)`` if the store is
    ///   locked; ``LockboxError/invalidPasscode(reason:)``; ``LockboxError/notEnoughMemory(bytes:)``.
    public func changePasscode(to passcode: PasscodeSource, strength: PasscodeStrength = .moderate) throws {
        try keys.changePasscode(to: passcode, strength: strength)
    }

    /// Removes the passcode of an unlocked store. The store is then always open.
    ///
    /// Destroys the key of `whenPasscodeSetThisDeviceOnly` first, so that no copy of that class's items opens
    /// with the new keybag, and then removes the items. If the call is interrupted in between, reading one of
    /// these items throws ``LockboxError/corrupt(record:reason:)``. The next call removes them, even though it
    /// throws ``LockboxError/passcodeNotSet``.
    ///
    /// - Throws: ``LockboxError/passcodeNotSet``; ``LockboxError/interactionNotAllowed(_:)`` if the store is
    ///   locked.
    public func removePasscode() throws {
        do { try keys.removePasscode() } catch LockboxError.passcodeNotSet {
            try removeUnopenableItems(of: .whenPasscodeSetThisDeviceOnly)
            throw LockboxError.passcodeNotSet
        }
        try removeUnopenableItems(of: .whenPasscodeSetThisDeviceOnly)
    }
}
