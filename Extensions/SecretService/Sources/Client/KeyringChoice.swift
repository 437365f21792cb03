#if SecretService
    @_spi(Extensions) public import LockboxCore
    import LockboxPlatform
    public import LockboxStore

    /// Where an app's items are: in the user's desktop keyring, or in encrypted files.
    ///
    /// ```swift
    /// let backend = try KeyringChoice.backend(keyPrefix: "com.example.app")
    /// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: backend)
    /// ```
    ///
    /// The first call decides, and stores the choice in the files' store: files if the prefix has items there already, otherwise the
    /// keyring if there is one, also while it is locked, otherwise files. From then on it stays so, whatever is there on another day. If
    /// the keyring is missing then, calls throw ``LockboxError/notReachable(endpoint:reason:)``, and no item is stored elsewhere.
    public enum KeyringChoice: String, Sendable, Hashable, CaseIterable {
        /// The user's keyring: ``SecretServiceBackend``.
        case keyring
        /// Encrypted files.
        case files

        private static let prefix = "\0keyring"

        /// Returns the backend that was chosen, and chooses one if none was.
        ///
        /// - Parameters:
        ///   - keyPrefix: The app's prefix. Each has a choice of its own.
        ///   - promptLimit: See ``SecretServiceBackend/init(promptLimit:)``.
        ///   - files: The files' store, which also has the choice. It is created if there is none.
        /// - Throws: ``LockboxError`` if the choice cannot be read or stored.
        @available(
            *,
            noasync,
            message: "Blocks the thread: call it in try await backend.async { } of the files' backend."
        )
        public static func backend(
            keyPrefix: String,
            promptLimit: Duration? = nil,
            files: SealedBackend = .default
        ) throws -> any LockboxBackend {
            try backend(keyPrefix, KeyringAccess(promptLimit: promptLimit), files)
        }

        static func backend(_ keyPrefix: String, _ access: KeyringAccess, _ files: SealedBackend) throws
            -> any LockboxBackend
        {
            switch try stored(keyPrefix, files) ?? decide(keyPrefix, access, files) {
            case .keyring: SecretServiceBackend(access)
            case .files: files
            }
        }

        /// Moves an app's items to the other place, and remembers that one. No program may use them meanwhile.
        ///
        /// - Parameters:
        ///   - keyPrefix: The app's prefix.
        ///   - promptLimit: See ``SecretServiceBackend/init(promptLimit:)``.
        ///   - files: The files' store.
        /// - Returns: The outcome. If it is not complete, the choice is as before, and the call can be repeated.
        /// - Throws: ``LockboxError`` if the items cannot be listed.
        @discardableResult
        @available(
            *,
            noasync,
            message: "Blocks the thread: call it in try await backend.async { } of the files' backend."
        )
        public func take(
            keyPrefix: String,
            promptLimit: Duration? = nil,
            files: SealedBackend = .default
        ) throws -> TransferReport {
            try take(keyPrefix, KeyringAccess(promptLimit: promptLimit), files)
        }

        func take(_ keyPrefix: String, _ access: KeyringAccess, _ files: SealedBackend) throws
            -> TransferReport
        {
            let keyring = SecretServiceBackend(access)
            let (old, new): (any LockboxBackend, any LockboxBackend) =
                self == .files ? (keyring, files) : (files, keyring)
            let report = try old.moveItems(to: new, prefix: keyPrefix, existing: .fail)
            if report.isComplete { try store(keyPrefix, files, policy: .replace) }
            return report
        }

        private static func stored(_ keyPrefix: String, _ files: SealedBackend) throws -> KeyringChoice? {
            let key = try ItemKey(storedPrefix: prefix, key: keyPrefix)
            guard let value = try files.item(for: key, now: nil)?.value else { return nil }
            guard let choice = KeyringChoice(rawValue: String(decoding: value.data, as: UTF8.self)) else {
                throw LockboxError.unsupportedVersion(record: "the choice of a keyring", version: 2)
            }
            return choice
        }

        private static func decide(_ keyPrefix: String, _ access: KeyringAccess, _ files: SealedBackend)
            throws
            -> KeyringChoice
        {
            var hasFiles = false
            try files.forEachItem(prefix: keyPrefix, now: nil, unreadable: { _ in hasFiles = true }) { _, _ in
                hasFiles = true
            }
            let choice: KeyringChoice = try !hasFiles && isThere(access) ? .keyring : .files
            do {
                try choice.store(keyPrefix, files, policy: .addOnly)
            } catch let error as LockboxError where error.code == .duplicateItem {
                // Another process was faster.
                return try stored(keyPrefix, files) ?? choice
            }
            return choice
        }

        /// Whether there is a keyring, perhaps a locked one. Asks the user nothing.
        private static func isThere(_ access: KeyringAccess) throws -> Bool {
            do { try Keyring.with(KeyringAccess(address: access.address)) { _ in } } catch let error
                as LockboxError
            {
                switch error.code {
                case .interactionNotAllowed: return true
                case .notReachable: return false
                default: throw error
                }
            }
            return true
        }

        /// In a class that a locked store opens, too.
        private func store(_ keyPrefix: String, _ files: SealedBackend, policy: WritePolicy) throws {
            let value = try ArchivedValue(data: Data(rawValue.utf8), format: .data)
            let options = WriteOptions(accessibility: .alwaysThisDeviceOnly, policy: policy)
            try files.write(
                ItemChanges(value: value, options: options, modified: Date()),
                to: ItemKey(storedPrefix: Self.prefix, key: keyPrefix)
            )
        }
    }
#endif
