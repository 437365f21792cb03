extension LockboxBackend {
    /// Returns every prefix that has items, expired ones included.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func prefixes() async throws -> Set<String> { try await offPool { try prefixes() } }

    /// Returns every prefix that has readable items, expired ones included.
    ///
    /// Runs on another thread, and calls `unreadable` there. Canceling the task does not stop it. Parameters and errors are
    /// those of the synchronous form.
    public func prefixes(
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void
    ) async throws -> Set<String> {
        try await offPool { try prefixes(unreadable: unreadable) }
    }
}

extension LockableBackend {
    /// Returns which accessibility classes are open now.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func lockState() async throws -> LockState { try await offPool { try lockState } }
}

extension RepairableBackend {
    /// Removes an item that cannot be read.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public func remove(record: String) async throws -> Bool {
        try await offPool { try remove(record: record) }
    }

    /// Sets an item aside that cannot be read. Returns where its bytes are now.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public func quarantine(record: String) async throws -> String {
        try await offPool { try quarantine(record: record) }
    }
}

extension VerifiableBackend {
    /// Checks everything that is stored. Changes nothing.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    public func verify(
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> VerifyReport {
        try await offPool { try verify(progress: progress) }
    }
}
