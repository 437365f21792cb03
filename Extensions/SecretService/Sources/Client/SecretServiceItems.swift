#if SecretService
    @_spi(Extensions) public import LockboxCore
    public import LockboxPlatform

    /// All that programs have stored in the user's desktop keyring, in the form in which ``SecretServiceServer`` gives it to the same
    /// programs. Only for reading: copy it into a store.
    ///
    /// ```swift
    /// let source = try SecretServiceItems(promptLimit: .seconds(120))
    /// let report = try source.copyItems(to: EncryptedFileBackend.default)
    /// ```
    ///
    /// An item has its label, its attributes and its dates. Its key is made of its attributes, so a copy can be repeated. Of several with
    /// the same attributes each is copied. The items are those that were there when the instance was made.
    public struct SecretServiceItems: LockboxBackend {
        /// The prefix of all of them.
        public static let prefix = SecretPath.items

        private let access: KeyringAccess
        private let paths: [ItemKey: String]

        /// Finds the items.
        ///
        /// - Parameter promptLimit: How long the user may take to unlock the keyring.
        /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the keyring is locked, or the prompt is not answered;
        ///   ``LockboxError/notReachable(endpoint:reason:)`` if there is none; ``LockboxError/notSupported(operation:)`` if it is
        ///   Lockbox's own.
        @available(*, noasync, message: "Blocks the thread: call it in a task's own thread.")
        public init(promptLimit: Duration? = nil) throws {
            try self.init(KeyringAccess(promptLimit: promptLimit))
        }

        init(_ access: KeyringAccess) throws {
            if UserKeyring.look(access.address).isLockbox {
                throw LockboxError.notSupported(operation: "copying from Lockbox's own keyring")
            }
            self.access = access
            let items = try Keyring.with(access) { try $0.items(with: [:]) }
            var (paths, numbers): ([ItemKey: String], [String: Int]) = ([:], [:])
            // The mark of that keyring stays there.
            let copied = items.filter { $0.attributes["xdg:schema"] != KeyringIdentity.schema["xdg:schema"] }
            for item in copied.sorted(by: { ($0.created, $0.path) < ($1.created, $1.path) }) {
                let texts = AttributeNames.withSchema(item.attributes).sorted { $0.key < $1.key }.flatMap {
                    [$0.key, $0.value]
                }
                let name = Digest.of(texts)
                // The first one keeps its key if others come.
                let number = numbers[name, default: 0]
                numbers[name] = number + 1
                let text = number == 0 ? name : Digest.of(texts + ["\(number)"])
                let key = try ItemKey(prefix: Self.prefix, key: text)
                paths[key] = item.path
            }
            self.paths = paths
        }

        /// Returns an item, or `nil` if it is gone.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
            guard let path = paths[key] else { return nil }
            let found = try Keyring.with(access) { keyring in
                try keyring.item(at: path).flatMap { item in try keyring.secret(of: item).map { (item, $0) } }
            }
            return try found.map { item, secret in
                try StoredItem(
                    key: key,
                    value: ArchivedValue(data: secret.value, format: .data),
                    created: Date(timeIntervalSince1970: TimeInterval(item.created)),
                    modified: Date(timeIntervalSince1970: TimeInterval(item.modified)),
                    label: item.label,
                    searchable: AttributeNames.encode(
                        AttributeNames.withSchema(item.attributes),
                        contentType: secret.contentType
                    )
                )
            }
        }

        /// Returns the attributes of all items, reading each.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
            var items: [ItemKey: ItemAttributes] = [:]
            for key in paths.keys where key.prefix == prefix {
                items[key] = try item(for: key, now: now)?.attributes
            }
            return items
        }

        /// Calls a closure with the attributes of all items. One that does not fit into a store is passed to another.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func forEachItem(
            prefix: String,
            now: Date?,
            unreadable: (UnreadableItem) throws -> Void,
            _ body: (ItemKey, ItemAttributes) throws -> Void
        ) throws {
            for (key, path) in paths where key.prefix == prefix {
                let item: StoredItem?
                do { item = try self.item(for: key, now: now) } catch let error as LockboxError
                    where [.invalidAttribute, .valueTooLarge].contains(error.code)
                {
                    try unreadable(UnreadableItem(key: key, record: path, location: path, error: error))
                    continue
                }
                if let item { try body(key, item.attributes) }
            }
        }

        /// Returns the one prefix, if there are items.
        public func prefixes() -> Set<String> { paths.isEmpty ? [] : [Self.prefix] }

        /// Refuses.
        public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
            throw LockboxError.notSupported(operation: "changing another program's items")
        }

        /// Refuses.
        public func remove(_ key: ItemKey) throws {
            throw LockboxError.notSupported(operation: "removing another program's items")
        }
    }
#endif
