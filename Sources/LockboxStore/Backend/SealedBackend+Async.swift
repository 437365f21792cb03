public import LockboxCore

// Progress closures are called on another thread.
extension SealedBackend {
    // MARK: Passcode

    /// Returns the processes for which the store is unlocked, or `nil` if it is locked or has no slots.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func unlockScope() async throws -> UnlockScope? {
        try await offPool { try self.unlockScope }
    }

    /// Unlocks the store: for this backend only, or for every process of the user. Returns the processes for
    /// which the store is unlocked.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public func unlock(_ passcode: PasscodeSource, scope: UnlockScope = .process, timeout: Duration? = nil)
        async throws -> UnlockScope
    {
        try await offPool { try self.unlock(passcode, scope: scope, timeout: timeout) }
    }

    /// Locks the store: wipes the keys of the `whenUnlocked` classes and of `whenPasscodeSetThisDeviceOnly`
    /// from this process's and the kernel's memory, and optionally those of the `afterFirstUnlock` classes.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func lock(includingAfterFirstUnlock: Bool = false) async throws {
        try await offPool { try self.lock(includingAfterFirstUnlock: includingAfterFirstUnlock) }
    }

    /// Unlocks the store with a recovery code, a key, or hardware. Returns the processes for which the store is unlocked.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public func unlock(with method: any UnlockMethod, scope: UnlockScope = .process, timeout: Duration? = nil)
        async throws -> UnlockScope
    {
        try await offPool { try self.unlock(with: method, scope: scope, timeout: timeout) }
    }

    /// Sets the passcode of a store that has none, and reseals every item. The store is then unlocked.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func setPasscode(
        _ passcode: PasscodeSource,
        strength: PasscodeStrength = .moderate,
        resealing: Bool = true,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool {
            try self.setPasscode(passcode, strength: strength, resealing: resealing, progress: progress)
        }
    }

    /// Changes the passcode of an unlocked store, and reseals every item.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func changePasscode(
        from old: PasscodeSource? = nil,
        to passcode: PasscodeSource,
        strength: PasscodeStrength = .moderate,
        resealing: Bool = true,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool {
            try self.changePasscode(
                from: old,
                to: passcode,
                strength: strength,
                resealing: resealing,
                progress: progress
            )
        }
    }

    /// Removes the passcode of an unlocked store, and all items of `whenPasscodeSetThisDeviceOnly`. Reseals the others.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func removePasscode(
        _ old: PasscodeSource? = nil,
        includingOtherSlots otherSlots: Bool = false,
        resealing: Bool = true,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool {
            try self.removePasscode(
                old,
                includingOtherSlots: otherSlots,
                resealing: resealing,
                progress: progress
            )
        }
    }

    // MARK: Slots

    /// Returns the slots of the store's keybag.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func slots() async throws -> [UnlockSlot] { try await offPool { try self.slots } }

    /// Returns the random ID of the store, or `nil` if there is no store yet.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func identity() async throws -> String? { try await offPool { try self.identity } }

    /// Returns what is known of the store's keys without an unlock, or `nil` if there is no store yet.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func status() async throws -> StoreStatus? { try await offPool { try self.status() } }

    /// Adds a recovery code, and reseals every item.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func addRecoveryCode(
        _ code: RecoveryCode,
        confirmation: PasscodeSource,
        label: String = "",
        resealing: Bool = true,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool {
            try self.addRecoveryCode(
                code,
                confirmation: confirmation,
                label: label,
                resealing: resealing,
                progress: progress
            )
        }
    }

    /// Adds a slot, and reseals every item.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func addSlot(
        _ method: any UnlockMethod,
        label: String,
        opensAllClasses: Bool = false,
        resealing: Bool = true,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool {
            try self.addSlot(
                method,
                label: label,
                opensAllClasses: opensAllClasses,
                resealing: resealing,
                progress: progress
            )
        }
    }

    /// Removes a slot, and reseals every item.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func removeSlot(
        _ id: UnlockSlot.ID,
        resealing: Bool = true,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool { try self.removeSlot(id, resealing: resealing, progress: progress) }
    }

    /// Accepts a store that was restored from an older copy, and reseals every item.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func acceptRestored(
        _ method: (any UnlockMethod)? = nil,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool { try self.acceptRestored(method, progress: progress) }
    }

    // MARK: The whole store

    /// Writes all items that may leave this device to a backup file, encrypted with a passphrase.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func exportBackup(
        to path: String,
        passphrase: PasscodeSource,
        prefix: String? = nil,
        strength: PasscodeStrength = .moderate,
        replacing: Bool = false,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> ExportReport {
        try await offPool {
            try self.exportBackup(
                to: path,
                passphrase: passphrase,
                prefix: prefix,
                strength: strength,
                replacing: replacing,
                progress: progress
            )
        }
    }

    /// Imports a backup into this store.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func importBackup(
        from path: String,
        passphrase: PasscodeSource,
        existing: ExistingItemPolicy = .keep,
        maximumStrength: PasscodeStrength = .sensitive,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> ImportReport {
        try await offPool {
            try self.importBackup(
                from: path,
                passphrase: passphrase,
                existing: existing,
                maximumStrength: maximumStrength,
                progress: progress
            )
        }
    }

    /// Creates a new device key and new keys for every class, reseals every item with them, and removes the old keys.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func rotateKeys(
        newDeviceKey: DeviceKeySource? = nil,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> RotationReport {
        try await offPool { try self.rotateKeys(newDeviceKey: newDeviceKey, progress: progress) }
    }
}
