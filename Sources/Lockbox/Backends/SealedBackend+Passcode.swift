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

    /// Opens every class, for this backend in this process.
    ///
    /// Takes one run of Argon2id, of the strength that the passcode was set with; nothing after it takes another. A
    /// wrong passcode costs as much. There is no lock-out after too many: whoever has the files and the device key
    /// guesses on a copy of them, where nobody counts, and only the owner would be locked out.
    ///
    /// A store without a passcode is open: nothing happens.
    ///
    /// - Throws: ``LockboxError/wrongPasscode``; ``LockboxError/invalidPasscode(reason:)`` if the source has none;
    ///   ``LockboxError/notEnoughMemory(bytes:)``.
    public func unlock(_ passcode: Passcode) throws { try keys.unlock(passcode) }

    /// Wipes the keys of the `whenUnlocked` classes and of `whenPasscodeSetThisDeviceOnly` from memory. The
    /// `afterFirstUnlock` classes stay open until the process ends, the `always` classes for ever.
    ///
    /// Without a passcode there is nothing to unlock with: nothing happens. A call that is under way on another
    /// thread is completed.
    public func lock() throws { try keys.lock() }

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
    public func setPasscode(_ passcode: Passcode, strength: PasscodeStrength = .moderate) throws {
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
    public func changePasscode(to passcode: Passcode, strength: PasscodeStrength = .moderate) throws {
        try keys.changePasscode(to: passcode, strength: strength)
    }

    /// Takes the passcode from an unlocked store, which is open from then on.
    ///
    /// The key of `whenPasscodeSetThisDeviceOnly` is destroyed first, then the items of that class are removed: no copy
    /// of their files opens with the new keybag.
    ///
    /// - Throws: ``LockboxError/passcodeNotSet``; ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    public func removePasscode() throws {
        try keys.removePasscode()
        try removeItems(of: .whenPasscodeSetThisDeviceOnly)
    }
}
