import LockboxCore

extension SealedBackend {
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

    /// Unlocks the store with a recovery code, a key, or hardware. Returns the processes for which the store is unlocked.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public func unlock(with method: any UnlockMethod, scope: UnlockScope = .process, timeout: Duration? = nil)
        async throws -> UnlockScope
    {
        try await offPool { try self.unlock(with: method, scope: scope, timeout: timeout) }
    }
}
