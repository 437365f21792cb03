public import LockboxCore

extension FailingBackend: LockableBackend {
    /// Returns that of the wrapped backend, unless ``Operation/attributes`` fails.
    public var lockState: LockState {
        get throws {
            try check(.attributes)
            return try capable((any LockableBackend).self, of: "lockState").lockState
        }
    }
}

extension FailingBackend: LocatingBackend {
    /// Returns the location in the wrapped backend, or `nil` if the wrapped backend does not locate its items.
    public func location(of key: ItemKey) throws -> String? {
        try (wrapped as? any LocatingBackend)?.location(of: key)
    }
}

extension FailingBackend: NotifyingBackend {
    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) throws -> @Sendable () -> Void {
        try check(.attributes)
        return try capable((any NotifyingBackend).self, of: "changes").subscribe(prefix: prefix, report)
    }
}

extension FailingBackend: RepairableBackend {
    /// Passes the call on, unless ``Operation/remove`` fails.
    @discardableResult
    public func remove(record: String) throws -> Bool {
        try check(.remove)
        return try capable((any RepairableBackend).self, of: "repair").remove(record: record)
    }

    /// Passes the call on, unless ``Operation/remove`` fails.
    @discardableResult
    public func quarantine(record: String) throws -> String {
        try check(.remove)
        return try capable((any RepairableBackend).self, of: "repair").quarantine(record: record)
    }
}

extension FailingBackend: SynchronizingBackend {
    /// Passes the call on, unless ``Operation/write`` fails. Does nothing if what the wrapped backend writes is
    /// durable at once.
    public func synchronize(prefix: String) throws {
        try check(.write)
        try (wrapped as? any SynchronizingBackend)?.synchronize(prefix: prefix)
    }
}

extension FailingBackend: VerifiableBackend {
    /// Passes the call on, unless ``Operation/read`` fails.
    public func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport {
        try check(.read)
        return try capable((any VerifiableBackend).self, of: "verify").verify(progress: progress)
    }
}

extension FailingBackend {
    private func capable<Capability>(_ type: Capability.Type, of operation: String) throws(LockboxError)
        -> Capability
    {
        guard let wrapped = wrapped as? Capability else { throw .notSupported(operation: operation) }
        return wrapped
    }
}
