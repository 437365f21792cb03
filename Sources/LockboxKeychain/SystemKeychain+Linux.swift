#if canImport(Glibc) || canImport(Musl)
    /// Apple's Keychain, which this system does not have: every call answers ``KeychainStatus/notAvailable``, and every
    /// call of a ``KeychainBackend`` throws ``LockboxError/notReachable(endpoint:reason:)``. So the same source
    /// compiles on every system.
    public struct SystemKeychain: KeychainCalls {
        /// Does nothing.
        public init() {}

        /// See ``KeychainCalls/add(_:)``.
        public func add(_ attributes: Attributes) -> Int32 { KeychainStatus.notAvailable }

        /// See ``KeychainCalls/copyMatching(_:)``.
        public func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes]) {
            (KeychainStatus.notAvailable, [])
        }

        /// See ``KeychainCalls/update(_:_:)``.
        public func update(_ query: Attributes, _ attributes: Attributes) -> Int32 {
            KeychainStatus.notAvailable
        }

        /// See ``KeychainCalls/delete(_:)``.
        public func delete(_ query: Attributes) -> Int32 { KeychainStatus.notAvailable }
    }
#endif
