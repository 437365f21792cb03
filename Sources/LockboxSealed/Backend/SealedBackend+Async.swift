public import LockboxCore

// Progress closures are called on another thread.
extension SealedBackend {
    // MARK: Passcode

    /// Returns which accessibility classes are open now.
    public func lockState() async throws -> LockState {
        try await offPool { try self.lockState }
    }

    /// Returns whom the store is unlocked for, or `nil` if it is locked or has no passcode.
    public func unlockScope() async throws -> UnlockScope? {
        try await offPool { try self.unlockScope }
    }

    /// Unlocks the store: for this backend only, or for every process of the user. Returns whom it is unlocked
    /// for.
    @discardableResult
    public func unlock(_ passcode: PasscodeSource, scope: UnlockScope = .process, timeout: Duration? = nil)
        async throws -> UnlockScope
    {
        try await offPool { try self.unlock(passcode, scope: scope, timeout: timeout) }
    }

    /// Locks the store: wipes the keys of the `whenUnlocked` classes and of `whenPasscodeSetThisDeviceOnly`
    /// from this process's and the kernel's memory, and optionally those of the `afterFirstUnlock` classes.
    public func lock(includingAfterFirstUnlock: Bool = false) async throws {
        try await offPool { try self.lock(includingAfterFirstUnlock: includingAfterFirstUnlock) }
    }

    /// Sets the passcode of a store that has none. The store is then unlocked.
    public func setPasscode(_ passcode: PasscodeSource, strength: PasscodeStrength = .moderate) async throws {
        try await offPool { try self.setPasscode(passcode, strength: strength) }
    }

    /// Changes the passcode of an unlocked store.
    public func changePasscode(to passcode: PasscodeSource, strength: PasscodeStrength = .moderate)
        async throws
    {
        try await offPool { try self.changePasscode(to: passcode, strength: strength) }
    }

    /// Removes the passcode of an unlocked store, and all items of `whenPasscodeSetThisDeviceOnly`. The store
    /// is then always open.
    public func removePasscode() async throws {
        try await offPool { try self.removePasscode() }
    }

    // MARK: The whole store

    /// Writes all items that may leave this device to a backup file, encrypted with a passphrase.
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

    /// Imports a backup into this store.
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

    /// Creates new keys for every class, reseals every item with them, and removes the old keys.
    @discardableResult
    public func rotateKeys(
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool { try self.rotateKeys(progress: progress) }
    }

    /// Checks everything in the store. Changes nothing.
    public func verify(
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> VerifyReport {
        try await offPool { try self.verify(progress: progress) }
    }

    /// Removes an item that cannot be read.
    public func remove(record: String) async throws { try await offPool { try self.remove(record: record) } }

    /// Sets an item aside that cannot be read. Returns where its bytes are now.
    @discardableResult
    public func quarantine(record: String) async throws -> String {
        try await offPool { try self.quarantine(record: record) }
    }
}
