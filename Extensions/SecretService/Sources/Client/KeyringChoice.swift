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
    /// keyring if there is one, otherwise files. Lockbox's own keyring, `lockbox secret-service`, is none: what it has is in files, too.
    /// From then on it stays so, whatever is there on another day. If the keyring is missing then, or there is another one, calls throw
    /// ``LockboxError/notReachable(endpoint:reason:)``, and no item is stored elsewhere.
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
        /// - Throws: ``LockboxError`` if the choice cannot be read or stored. If it cannot be made yet, the next call makes it:
        ///   ``LockboxError/interactionNotAllowed(_:)`` if the keyring is locked, and the user may not be asked, or does not answer;
        ///   ``LockboxError/userCanceled``; ``LockboxError/notReachable(endpoint:reason:)`` if the keyring does not answer.
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
            var access = access
            access.identity = try (stored(keyPrefix, files) ?? decide(keyPrefix, access, files)).keyring
            return access.identity == nil ? files : SecretServiceBackend(access)
        }

        /// The choice that is remembered.
        private struct Choice: Codable {
            /// The one that was chosen, or nil for files.
            let keyring: KeyringIdentity?
        }

        /// Moves an app's items to the other place, and remembers that one. No program may use them meanwhile.
        ///
        /// `keyring` takes the one that is there now, also in place of another one, whose items stay there.
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
            var access = access
            access.identity =
                switch self {
                case .files: try Self.stored(keyPrefix, files)?.keyring
                case .keyring: try Keyring.with(access) { try $0.identity() }
                }
            let keyring = SecretServiceBackend(access)
            let (old, new): (any LockboxBackend, any LockboxBackend) =
                self == .files ? (keyring, files) : (files, keyring)
            let report = try old.moveItems(to: new, prefix: keyPrefix, existing: .fail)
            if report.isComplete {
                let choice = Choice(keyring: self == .files ? nil : access.identity)
                try Self.store(choice, keyPrefix, files, policy: .replace)
            }
            return report
        }

        private static func stored(_ keyPrefix: String, _ files: SealedBackend) throws -> Choice? {
            let key = try ItemKey(storedPrefix: prefix, key: keyPrefix)
            guard let value = try files.item(for: key, now: nil)?.value else { return nil }
            guard let choice = try? JSONDecoder().decode(Choice.self, from: value.data) else {
                throw LockboxError.unsupportedVersion(record: "the choice of a keyring", version: 2)
            }
            return choice
        }

        private static func decide(_ keyPrefix: String, _ access: KeyringAccess, _ files: SealedBackend)
            throws -> Choice
        {
            var hasFiles = false
            try files.forEachItem(prefix: keyPrefix, now: nil, unreadable: { _ in hasFiles = true }) { _, _ in
                hasFiles = true
            }
            let choice = Choice(keyring: hasFiles ? nil : try keyring(access))
            do {
                try store(choice, keyPrefix, files, policy: .addOnly)
            } catch let error as LockboxError where error.code == .duplicateItem {
                // Another process was faster.
                return try stored(keyPrefix, files) ?? choice
            }
            return choice
        }

        /// Returns nil if there is none, or only Lockbox's own.
        private static func keyring(_ access: KeyringAccess) throws -> KeyringIdentity? {
            // D-Bus may start it at the first question.
            if try !Keyring.isThere(access) || UserKeyring.look(access.address).isLockbox { return nil }
            return try Keyring.with(access) { try $0.identity() }
        }

        /// In a class that a locked store opens, too.
        private static func store(
            _ choice: Choice,
            _ keyPrefix: String,
            _ files: SealedBackend,
            policy: WritePolicy
        ) throws {
            let value = try ArchivedValue(data: JSONEncoder().encode(choice), format: .data)
            let options = WriteOptions(accessibility: .alwaysThisDeviceOnly, policy: policy)
            try files.write(
                ItemChanges(value: value, options: options, modified: Date()),
                to: ItemKey(storedPrefix: prefix, key: keyPrefix)
            )
        }
    }
#endif
