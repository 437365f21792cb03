#if SecretService
    import COpenSSL
    @_spi(Extensions) public import LockboxCore
    public import LockboxPlatform

    /// Stores items in the user's desktop keyring: gnome-keyring, KWallet, KeePassXC or another that is `org.freedesktop.secrets` on
    /// the user's D-Bus.
    ///
    /// ```swift
    /// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: SecretServiceBackend())
    /// ```
    ///
    /// The prefix is the attribute `service`, and the key is `username`. Python's keyring and go-keyring find an archived `String` under
    /// these names, and the app reads as a `String` what they have stored.
    ///
    /// - A keyring is one lock for all classes. While it is locked, every call throws
    ///   ``LockboxError/interactionNotAllowed(_:)``, unless the user may be asked: see ``init(promptLimit:)``.
    /// - Without a keyring, every call throws ``LockboxError/notReachable(endpoint:reason:)``, which says what to do.
    /// - The keyring itself has no comparison: programs of Lockbox's that write under the same prefix take turns, by a name on the
    ///   bus. A change adds the new item before it removes the old one. Other programs take no turns: a write of theirs in the
    ///   middle of an update can be lost.
    /// - Writes are as durable as the keyring makes them. gnome-keyring does not wait for the disk.
    public struct SecretServiceBackend: LockboxBackend {
        /// The largest value: 1 MiB. Keyrings keep all items in memory that is not swapped, of which there is little.
        public var maximumValueSize: Int { 1 << 20 }

        private let access: KeyringAccess

        /// Creates a backend. Each call connects to the bus that `DBUS_SESSION_BUS_ADDRESS` names.
        ///
        /// - Parameter promptLimit: How long a call waits for the user to answer the keyring's prompt, for example for its password.
        ///   Then it throws ``LockboxError/interactionNotAllowed(_:)``; ``LockboxError/userCanceled`` if the user dismisses
        ///   it. Call `async` methods then, which keep no thread of Swift's pool waiting. If `nil`, no prompt is shown.
        public init(promptLimit: Duration? = nil) { self.init(KeyringAccess(promptLimit: promptLimit)) }

        init(_ access: KeyringAccess) { self.access = access }

        private func withKeyring<Result>(_ body: (Keyring) throws -> Result) throws -> Result {
            try Keyring.with(access, body)
        }

        /// The items for a key, the one that counts first, and its secret.
        private typealias Found = (items: [KeyringItem], secret: Secret?)

        private func find(_ key: ItemKey, _ keyring: Keyring) throws -> Found {
            for _ in 0..<Keyring.maximumRounds {
                let items = ItemForm.sorted(try keyring.items(with: ItemForm.attributes(of: key)))
                guard let first = items.first else { return ([], nil) }
                // Another writer may replace it meanwhile.
                if let secret = try keyring.secret(of: first) { return (items, secret) }
            }
            throw LockboxError.conflict(record: ItemForm.location(of: key))
        }

        private func item(_ key: ItemKey, _ found: Found) throws -> StoredItem? {
            guard let first = found.items.first, let secret = found.secret else { return nil }
            return try ItemForm.item(key, first, secret)
        }

        // MARK: Reading

        /// Returns an item with its attributes, or `nil` if it is absent.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
            let found = try withKeyring { try find(key, $0) }
            return try item(key, found).flatMap { $0.attributes.isExpired(at: now) ? nil : $0 }
        }

        /// Returns the attributes of every item with a prefix.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
            var items: [ItemKey: ItemAttributes] = [:]
            try forEachItem(prefix: prefix, now: now, unreadable: { throw $0.error }) { items[$0] = $1 }
            return items
        }

        /// Calls a closure with the attributes of every item with a prefix.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func forEachItem(
            prefix: String,
            now: Date?,
            unreadable: (UnreadableItem) throws -> Void,
            _ body: (ItemKey, ItemAttributes) throws -> Void
        ) throws {
            let found = try withKeyring { keyring in
                let items = try keyring.items(with: [ItemForm.service: ItemForm.name(prefix)])
                return try Dictionary(grouping: items, by: ItemForm.key).compactMap { key, items in
                    try key.flatMap { key in try entry(key, ItemForm.sorted(items)[0], keyring) }
                }
            }
            for (key, record, attributes) in found {
                switch attributes {
                case .success(let attributes): if !attributes.isExpired(at: now) { try body(key, attributes) }
                case .failure(let error):
                    let location = ItemForm.location(of: key)
                    try unreadable(
                        UnreadableItem(key: key, record: record, location: location, error: error)
                    )
                }
            }
        }

        private typealias Entry = (
            key: ItemKey, record: String, attributes: Result<ItemAttributes, LockboxError>
        )

        /// Returns nil if the item is gone.
        private func entry(_ key: ItemKey, _ found: KeyringItem, _ keyring: Keyring) throws -> Entry? {
            do {
                if let attributes = try ItemForm.attributes(key, found) {
                    return (key, found.path, .success(attributes))
                }
                guard let item = try item(key, find(key, keyring)) else { return nil }
                return (key, found.path, .success(item.attributes))
            } catch let error as LockboxError where error.code == .corrupt {
                return (key, found.path, .failure(error))
            }
        }

        /// Returns every prefix that has items, of whichever program.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func prefixes() throws -> Set<String> {
            let items = try withKeyring { try $0.items(with: [:]) }
            return Set(items.compactMap { ItemForm.key($0)?.prefix }).filter {
                !ItemKey.isReserved(prefix: $0)
            }
        }

        /// Returns how errors name an item.
        public func location(of key: ItemKey) -> String? { ItemForm.location(of: key) }

        // MARK: Changing

        /// Creates, replaces or removes an item.
        ///
        /// If another writer was faster, the change starts again.
        ///
        /// - Throws: ``LockboxError/conflict(record:)`` if other writers were faster 64 times;
        ///   ``LockboxError/lockTimeout(location:)`` if another program is in the middle of a change for ten seconds.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
            for _ in 0..<Keyring.maximumRounds {
                let old = try withKeyring { try find(key, $0) }
                let item = try item(key, old)
                let new = try change(item.flatMap { $0.attributes.isExpired(at: now) ? nil : $0 })
                if let new, new.attributes.size > maximumValueSize {
                    throw LockboxError.valueTooLarge(size: new.attributes.size, limit: maximumValueSize)
                }
                if item == nil, new == nil { return }
                if try replace(old, with: new, key) { return }
            }
            throw LockboxError.conflict(record: ItemForm.location(of: key))
        }

        /// Returns whether the old item was still there.
        private func replace(_ old: Found, with new: StoredItem?, _ key: ItemKey) throws -> Bool {
            try withLock(key.prefix) { keyring in
                let found = try find(key, keyring)
                guard found.items.first == old.items.first, found.secret == old.secret else { return false }
                if let new {
                    let form = try ItemForm(new, replacing: found.items)
                    try keyring.create(form.secret, label: form.label, attributes: form.attributes)
                }
                // The one that counts is the last to go.
                for item in found.items.reversed() { try keyring.delete(item) }
                return true
            }
        }

        /// Removes an item, readable or not, and with it what other programs have stored for the same key.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func remove(_ key: ItemKey) throws {
            try withLock(key.prefix) { keyring in
                let items = ItemForm.sorted(try keyring.items(with: ItemForm.attributes(of: key)))
                for item in items.reversed() { try keyring.delete(item) }
            }
        }

        /// Removes all items with a prefix, or none if the keyring is locked.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
        public func removeAll(prefix: String) throws {
            try withLock(prefix) { keyring in
                for item in try keyring.items(with: [ItemForm.service: ItemForm.name(prefix)])
                where ItemForm.key(item) != nil { try keyring.delete(item) }
            }
        }

        private func withLock<Result>(_ prefix: String, _ body: (Keyring) throws -> Result) throws -> Result {
            try withKeyring { keyring in
                try keyring.lock("lockbox.keyring.p\(Digest.of([prefix.canonical]))")
                return try body(keyring)
            }
        }
    }

    /// A name of 32 hexadecimal digits for a list of texts.
    enum Digest {
        static func of(_ texts: [String]) -> String {
            let bytes = texts.flatMap { Array("\($0.utf8.count):\($0)".utf8) }
            var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
            SHA256(bytes, bytes.count, &digest)
            return digest.prefix(16).hexadecimal
        }
    }
#endif
