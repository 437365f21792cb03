#if canImport(Glibc) || canImport(Musl)
    /// Apple's Keychain, which this system does not have: every call answers ``KeychainStatus/notAvailable``, and every
    /// call of a ``KeychainBackend`` throws ``LockboxError/notReachable(endpoint:reason:)``. So the same source
    /// compiles on every system.
    public struct SystemKeychain: KeychainCalls {
        /// Does nothing.
        public init() {}

        /// Returns ``KeychainStatus/notAvailable``.
        public func add(_ attributes: Attributes) -> Int32 { KeychainStatus.notAvailable }

        /// Returns ``KeychainStatus/notAvailable``.
        public func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes]) {
            (KeychainStatus.notAvailable, [])
        }

        /// Returns ``KeychainStatus/notAvailable``.
        public func update(_ query: Attributes, _ attributes: Attributes) -> Int32 {
            KeychainStatus.notAvailable
        }

        /// Returns ``KeychainStatus/notAvailable``.
        public func delete(_ query: Attributes) -> Int32 { KeychainStatus.notAvailable }
    }
#endif
