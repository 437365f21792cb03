public import LockboxCore

// Closures that report progress run on another thread.
extension SealedBackend {
    // MARK: Passcode

    /// Returns which classes are open now.
    public func lockState() async throws -> LockState {
        try await offPool { try self.lockState }
    }

    /// Returns for whom the store is unlocked; nil while it is locked, and if it has no passcode.
    public func unlockScope() async throws -> UnlockScope? {
        try await offPool { try self.unlockScope }
    }

    /// Opens every class: for this backend in this process, or for every process of the user. Returns for whom the store is
    /// unlocked.
    @discardableResult
    public func unlock(_ passcode: PasscodeSource, scope: UnlockScope = .process, timeout: Duration? = nil)
        async throws -> UnlockScope
    {
        try await offPool { try self.unlock(passcode, scope: scope, timeout: timeout) }
    }

    /// Wipes the keys of the `whenUnlocked` classes and of `whenPasscodeSetThisDeviceOnly` from memory, and from the kernel's;
    /// on request those of the `afterFirstUnlock` classes, too.
    public func lock(includingAfterFirstUnlock: Bool = false) async throws {
        try await offPool { try self.lock(includingAfterFirstUnlock: includingAfterFirstUnlock) }
    }

    /// Gives a passcode to a store that has none. The store is unlocked then.
    public func setPasscode(_ passcode: PasscodeSource, strength: PasscodeStrength = .moderate) async throws {
        try await offPool { try self.setPasscode(passcode, strength: strength) }
    }

    /// Replaces the passcode of an unlocked store.
    public func changePasscode(to passcode: PasscodeSource, strength: PasscodeStrength = .moderate)
        async throws
    {
        try await offPool { try self.changePasscode(to: passcode, strength: strength) }
    }

    /// Takes the passcode from an unlocked store, which is open from then on, and removes the items of
    /// `whenPasscodeSetThisDeviceOnly`.
    public func removePasscode() async throws {
        try await offPool { try self.removePasscode() }
    }

    // MARK: The whole store

    /// Writes every item that may leave this device into one file, sealed with a passphrase.
    @discardableResult
    public func exportBackup(
        to path: String,
        passphrase: PasscodeSource,
        prefix: String? = nil,
        strength: PasscodeStrength = .moderate,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> ExportReport {
        try await offPool {
            try self.exportBackup(
                to: path,
                passphrase: passphrase,
                prefix: prefix,
                strength: strength,
                progress: progress
            )
        }
    }

    /// Reads a backup into this store.
    @discardableResult
    public func importBackup(
        from path: String,
        passphrase: PasscodeSource,
        existing: ImportPolicy = .keep,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> ImportReport {
        try await offPool {
            try self.importBackup(from: path, passphrase: passphrase, existing: existing, progress: progress)
        }
    }

    /// Gives every class a new key, seals every item anew, and drops the old keys.
    @discardableResult
    public func rotateKeys(
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool { try self.rotateKeys(progress: progress) }
    }

    /// Looks at everything in the store, and changes nothing.
    public func verify(
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> VerifyReport {
        try await offPool { try self.verify(progress: progress) }
    }
}
