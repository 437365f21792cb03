public import LockboxCore

extension SealedBackend {
    /// Which classes are open now.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    public var lockState: LockState {
        get throws { try keys.lockState }
    }

    /// Whether the system keeps the keys that are open now out of swap space. Where it does not, as `ulimit -l` says how
    /// much may be locked into RAM, they are still in guarded memory and left out of core dumps.
    public var isLockedIntoMemory: Bool { keys.isLockedIntoMemory }

    /// For whom the store is unlocked; nil while it is locked, and if it has no passcode.
    ///
    /// - Throws: ``LockboxError`` if the keybag cannot be read.
    public var unlockScope: UnlockScope? {
        get throws { try keys.unlockScope }
    }

    /// Opens every class: for this backend in this process, or for every process of the user.
    ///
    /// Takes one run of Argon2id, of the strength that the passcode was set with; nothing after it takes another. A
    /// wrong passcode costs as much. There is no lock-out after too many: whoever has the files and the device key
    /// guesses on a copy of them, where nobody counts, and only the owner would be locked out.
    ///
    /// With the scope ``UnlockScope/user`` the keys are in the Linux kernel's keyring of the user, and every backend on
    /// this store in a process of the user finds them there. Where the kernel refuses, as in many containers, the store
    /// is unlocked for this backend only, and the result says so.
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
    /// A store without a passcode is open: nothing happens.
    ///
    /// - Parameters:
    ///   - passcode: Where it comes from.
    ///   - scope: For whom.
    ///   - timeout: With the scope ``UnlockScope/user``: after how long the kernel drops the keys of all but the
    ///     `afterFirstUnlock` classes, in whole seconds, and at least one. Nil: not before a lock or the next start of the
    ///     machine. There is none where the kernel refuses: then this backend is unlocked until ``lock(includingAfterFirstUnlock:)``.
    /// - Returns: For whom the store is unlocked.
    /// - Throws: ``LockboxError/wrongPasscode``; ``LockboxError/invalidPasscode(reason:)`` if the source has none;
    ///   ``LockboxError/notEnoughMemory(bytes:)``.
    @discardableResult
    public func unlock(_ passcode: PasscodeSource, scope: UnlockScope = .process, timeout: Duration? = nil)
        throws
        -> UnlockScope
    {
        try keys.unlock(passcode, scope: scope, timeout: timeout)
    }

    /// Wipes the keys of the `whenUnlocked` classes and of `whenPasscodeSetThisDeviceOnly` from memory, and from the
    /// kernel's, so that the user's other processes have them no longer, unless they have unlocked for themselves. The
    /// `always` classes stay open.
    ///
    /// Without a passcode there is nothing to unlock with: nothing happens. A call that is under way on another
    /// thread is completed.
    ///
    /// - Parameter includingAfterFirstUnlock: Whether the keys of the `afterFirstUnlock` classes go, too, as when the
    ///   machine starts anew. Otherwise they stay until the process ends; in the kernel until the next start.
    /// - Throws: ``LockboxError/storageFailure(operation:path:errno:)`` if the kernel does not give its keys up, or if it
    ///   cannot be waited for a process that may be putting them back. Those of this process are wiped then, too.
    public func lock(includingAfterFirstUnlock: Bool = false) throws {
        try keys.lock(includingAfterFirstUnlock: includingAfterFirstUnlock)
    }

    /// Gives a passcode to a store that has none. The store is unlocked then.
    ///
    /// Only the keybag is rewritten, whatever the number of items. Copies of the old one still open without a
    /// passcode.
    ///
    /// - Parameters:
    ///   - passcode: 1 to 1,024 bytes.
    ///   - strength: What each unlock, and each guess, costs.
    /// - Throws: ``LockboxError/passcodeAlreadySet``; ``LockboxError/invalidPasscode(reason:)``;
    ///   ``LockboxError/notEnoughMemory(bytes:)``.
    public func setPasscode(_ passcode: PasscodeSource, strength: PasscodeStrength = .moderate) throws {
        try keys.setPasscode(passcode, strength: strength)
    }

    /// Replaces the passcode of an unlocked store. Only the keybag is rewritten; copies of the old one still open with
    /// the old passcode.
    ///
    /// The old passcode is not asked for: whoever has unlocked the store has every key, and so everything that the
    /// passcode protects.
    ///
    /// - Parameters:
    ///   - passcode: 1 to 1,024 bytes.
    ///   - strength: What each unlock, and each guess, costs.
    /// - Throws: ``LockboxError/passcodeNotSet``; ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    public func changePasscode(to passcode: PasscodeSource, strength: PasscodeStrength = .moderate) throws {
        try keys.changePasscode(to: passcode, strength: strength)
    }

    /// Takes the passcode from an unlocked store, which is open from then on.
    ///
    /// The key of `whenPasscodeSetThisDeviceOnly` is destroyed first, then the items of that class are removed: no copy
    /// of their files opens with the new keybag. If it is interrupted in between, such files are left; reading one
    /// throws ``LockboxError/corrupt(record:reason:)``, and the next call removes them, also where it finds no passcode.
    ///
    /// - Throws: ``LockboxError/passcodeNotSet``; ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    public func removePasscode() throws {
        do { try keys.removePasscode() } catch LockboxError.passcodeNotSet {
            try removeUnopenableItems(of: .whenPasscodeSetThisDeviceOnly)
            throw LockboxError.passcodeNotSet
        }
        try removeUnopenableItems(of: .whenPasscodeSetThisDeviceOnly)
    }
}
