public import LockboxCore
public import LockboxPlatform

/// The source of a ``Migration``'s items.
///
/// Old items are removed only after all new ones have been stored, and only if they were migrated and have not
/// changed since they were read.
public struct MigrationSource: Sendable {
    let open: @Sendable (_ lockbox: Lockbox, _ now: Date) throws -> any SourceItems
    /// Whether the source is the lockbox's own store and prefix.
    let isStore: Bool
    /// Whether other machines that share the lockbox's backend have the same items.
    let isShared: Bool
    /// Whether migrated items are removed. Otherwise the app does that, and finding one again means nothing.
    let removesItems: Bool
    /// The prefix of the items' keys. Nil if the source is not a backend, so that its keys may be any strings.
    let keyPrefix: (@Sendable (Lockbox) -> String)?

    package init(
        isStore: Bool = false,
        isShared: Bool = false,
        removesItems: Bool = true,
        keyPrefix: (@Sendable (Lockbox) -> String)? = nil,
        open: @escaping @Sendable (_ lockbox: Lockbox, _ now: Date) throws -> any SourceItems
    ) {
        self.open = open
        self.isStore = isStore
        self.isShared = isShared
        self.removesItems = removesItems
        self.keyPrefix = keyPrefix
    }

    /// Items that Lockbox 2 stored under the lockbox's own prefix, with the format ``ValueFormat/lockbox2``.
    ///
    /// An item in a new format is already in place. If the migration gives it another key, it is moved as it is:
    /// see ``backend(_:keyPrefix:)``.
    public static let store = MigrationSource(
        isStore: true,
        isShared: true,
        keyPrefix: { $0.keyPrefix },
        open: {
            BackendItems(
                backend: $0.backend,
                destination: $0.backend,
                keyPrefix: $0.keyPrefix,
                now: $1,
                isStore: true
            )
        }
    )

    /// Items in another backend or under another prefix.
    ///
    /// Those that Lockbox 2 stored have the format ``ValueFormat/lockbox2``, and are converted. An item in
    /// another format is moved as it is, with its value, format, dates and all other attributes, whatever type
    /// the migration gives it. Only a class that the migration names replaces the item's own.
    ///
    /// - Parameters:
    ///   - backend: The backend that stores the items.
    ///   - keyPrefix: The items' key prefix. If `nil`, the lockbox's.
    public static func backend(_ backend: any LockboxBackend, keyPrefix: String? = nil) -> MigrationSource {
        MigrationSource(
            isShared: !backend.isOnThisDevice,
            keyPrefix: { keyPrefix ?? $0.keyPrefix },
            open: {
                BackendItems(
                    backend: backend,
                    destination: $0.backend,
                    keyPrefix: keyPrefix ?? $0.keyPrefix,
                    now: $1
                )
            }
        )
    }

    /// Items that the app has read itself, for example from the Keychain: values of Lockbox 2 or 3, Strongbox,
    /// KeychainAccess or Valet, under the keys that these libraries use.
    ///
    /// - Parameters:
    ///   - items: The items' bytes, by key.
    ///   - remove: Removes old items. Called with the keys of the items that have been stored in the new
    ///     format. Errors that it throws are rethrown by ``Lockbox``'s `migrate`, and the next run calls it again. If
    ///     `nil`, the app removes them itself, and later runs skip done items.
    public static func items(
        _ items: [String: Data],
        remove: (@Sendable (Set<String>) throws -> Void)? = nil
    ) -> MigrationSource {
        let values = items.mapValues { SourceValue.bytes($0, isOwn: false) }
        return MigrationSource(removesItems: remove != nil) { _, _ in
            GivenItems(items: values, removal: remove)
        }
    }

    /// The entries of a property list's top-level dictionary, binary or XML. Entries that are not migrated are
    /// kept.
    ///
    /// - Parameter path: The file, of at most 16 MiB, which need not exist. It is replaced atomically, with the same owner
    ///   and permissions. If it is not a regular file, or has other hard links or an access control list, calls throw
    ///   ``LockboxError/unsafePermissions(path:reason:)``. If it is not in this format, or cannot be read without
    ///   loss, they throw ``LockboxError/sourceRefused(path:reason:)``.
    public static func propertyList(at path: String) -> MigrationSource { file(path, .propertyList) }

    /// The members of a JSON file's top-level object. The rest of the file is kept byte for byte.
    ///
    /// - Parameter path: The file, of at most 16 MiB, which need not exist. It is replaced atomically, with the same owner
    ///   and permissions. If it is not a regular file, or has other hard links or an access control list, calls throw
    ///   ``LockboxError/unsafePermissions(path:reason:)``. If it is not in this format, or cannot be read without
    ///   loss, they throw ``LockboxError/sourceRefused(path:reason:)``.
    public static func json(at path: String) -> MigrationSource { file(path, .json) }

    /// The variables of an `.env` file. The rest of the file is kept byte for byte.
    ///
    /// - Parameter path: The file, of at most 16 MiB, which need not exist. It is replaced atomically, with the same owner
    ///   and permissions. If it is not a regular file, or has other hard links or an access control list, calls throw
    ///   ``LockboxError/unsafePermissions(path:reason:)``. If it is not in this format, or cannot be read without
    ///   loss, they throw ``LockboxError/sourceRefused(path:reason:)``.
    public static func environmentFile(at path: String) -> MigrationSource { file(path, .environment) }

    /// The entries of a netrc file. An entry's key is `login@machine`, or `machine` if it has no login, followed by
    /// `:` and its port or protocol if it has one. Its value is a dictionary of `machine`, `login`, `password`, `account`, `port`
    /// and `protocol`. `user` is read as `login`.
    ///
    /// The rest of the file is kept byte for byte. A comment inside an entry belongs to the entry.
    ///
    /// - Parameter path: The file, of at most 16 MiB, which need not exist. It is replaced atomically, with the same owner
    ///   and permissions. If it is not a regular file, or has other hard links or an access control list, calls throw
    ///   ``LockboxError/unsafePermissions(path:reason:)``. If it is not in this format, or cannot be read without
    ///   loss, they throw ``LockboxError/sourceRefused(path:reason:)``.
    public static func netrc(at path: String) -> MigrationSource { file(path, .netrc) }

    private static func file(_ path: String, _ format: SourceFile.Format) -> MigrationSource {
        MigrationSource { _, _ in try FileItems(path: path, format: format) }
    }
}

extension MigrationSource {
    /// Returns the keys of all items in a source, for example to migrate all of them. For ``store``, returns only the keys
    /// of items that Lockbox 2 stored.
    ///
    /// - Parameters:
    ///   - lockbox: The lockbox into which the items would be migrated. Nothing is changed.
    ///   - unreadable: Called with each item of a backend that cannot be read, and so stays in the source. By default, its
    ///     error is thrown.
    /// - Returns: The keys of the items that can be read; empty if the source does not exist.
    /// - Throws: ``LockboxError`` if the source cannot be read at all.
    public func keys(for lockbox: Lockbox, unreadable: (UnreadableItem) throws -> Void = { throw $0.error })
        throws
        -> [String]
    {
        try open(lockbox, lockbox.now()).keys(unreadable: unreadable)
    }
}

/// The items of a source when a migration begins.
package protocol SourceItems {
    /// Returns the items' keys, in the order of the source if it has one.
    ///
    /// - Parameter unreadable: Called with each item whose key is not known, because it cannot be read.
    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String]

    /// Returns an item, or nil if it does not exist.
    func item(forKey key: String) throws -> SourceItem?

    /// Returns whether an item that an earlier run has done is there again. Does not read its value.
    func holds(_ key: String) throws -> Bool

    /// Removes items that have not changed since they were read.
    ///
    /// - Returns: The keys of the items that have changed, which are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String>

    /// Returns whether the backend that the items are in has this record.
    func contains(_ record: StoredItem) throws -> Bool

    /// Returns whether an error that reading an item has thrown is about this item alone.
    func isAbout(_ key: String, _ error: LockboxError) -> Bool
}

extension SourceItems {
    /// The items are not in a backend.
    package func contains(_ record: StoredItem) -> Bool { false }

    /// All items are in one place.
    package func isAbout(_ key: String, _ error: LockboxError) -> Bool { false }
}

package struct SourceItem: Sendable {
    package let value: SourceValue
    /// The item as stored in a backend, if the source is one.
    let stored: StoredItem?
    /// What the source knows of the item, if it knows more than its value. The new item keeps all but the date of
    /// modification.
    package let attributes: ItemAttributes?

    package init(_ value: SourceValue, stored: StoredItem? = nil) {
        self.value = value
        self.stored = stored
        attributes = stored?.attributes
    }

    package init(_ value: SourceValue, attributes: ItemAttributes) {
        self.value = value
        stored = nil
        self.attributes = attributes
    }

    /// The stored item, if it is in a new format. It is moved as it is.
    var new: StoredItem? { stored.flatMap { $0.value.format == .lockbox2 ? nil : $0 } }
}

/// An item's value in the source.
package enum SourceValue: Sendable, Equatable {
    /// Bytes without a type. `isOwn` if Lockbox itself stored them: an empty text is then never an empty
    /// collection.
    case bytes(Data, isOwn: Bool)
    /// A value with a type.
    case property(PropertyValue)

    package static func == (one: SourceValue, other: SourceValue) -> Bool {
        switch (one, other) {
        case (.bytes(let one, let isOwn), .bytes(let other, let isOthers)): one == other && isOwn == isOthers
        case (.property(let one), .property(let other)): one.isIdentical(to: other)
        default: false
        }
    }

    func bytes() throws(SourceError) -> [UInt8] {
        switch self {
        case .bytes(let data, _), .property(.data(let data)): [UInt8](data)
        case .property: throw .notDecodable(type: "Data")
        }
    }

    func property() throws(SourceError) -> PropertyValue {
        guard case .property(let value) = self else {
            throw .unsupported(
                "its source does not record the type; name the encoding, such as .string or .json"
            )
        }
        return value
    }

    func decode<Value: Decodable>(_ decode: (Data) throws -> Value) throws -> Value {
        switch self {
        case .bytes(let data, _): try decode(data)
        case .property(let value): try value.decode(Value.self)
        }
    }

    func decodeCollection<Value: Decodable>(_ decode: (String) throws -> Value) throws -> Value {
        // Before 1.4.7, Lockbox stored an empty collection like one with an empty string.
        if case .bytes(let data, isOwn: false) = self, data.isEmpty {
            throw SourceError.unsupported("it may be an empty collection, or one with an empty string")
        }
        return try self.decode { try decode(Lockbox2Text.string($0)) }
    }
}

/// Items of a backend.
struct BackendItems: SourceItems {
    let backend: any LockboxBackend
    /// Where the items are to go. The same backend, or another one.
    let destination: any LockboxBackend
    let keyPrefix: String
    let now: Date
    /// Whether these are the lockbox's own items. Those in a new format are then already where they belong.
    var isStore = false

    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String] {
        var keys: [String] = []
        try backend.forEachItem(prefix: keyPrefix, now: now, unreadable: unreadable) {
            if !isStore || $1.format == .lockbox2 { keys.append($0.key) }
        }
        return keys.sorted()
    }

    /// An item of a new form that the destination has, too, may be the same one, if both are the same store.
    func holds(_ key: String) throws -> Bool {
        let key = try ItemKey(prefix: keyPrefix, key: key)
        guard let attributes = try backend.attributes(for: key, now: now) else { return false }
        if attributes.format == .lockbox2 { return true }
        return try !isStore && destination.attributes(for: key, now: now) != attributes
    }

    func isAbout(_ key: String, _ error: LockboxError) -> Bool {
        (try? ItemKey(prefix: keyPrefix, key: key)).map { error.isAbout($0, in: backend) } ?? false
    }

    func item(forKey key: String) throws -> SourceItem? {
        try backend.item(for: ItemKey(prefix: keyPrefix, key: key), now: now).map {
            SourceItem(.bytes($0.value.data, isOwn: true), stored: $0)
        }
    }

    func contains(_ record: StoredItem) throws -> Bool {
        try backend.item(for: record.key, now: nil) == record
    }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        var changed: Set<String> = []
        for (key, item) in items.sorted(by: { $0.key < $1.key }) {
            var isChanged = false
            try backend.update(ItemKey(prefix: keyPrefix, key: key), now: now) { current in
                isChanged = current != nil && current != item.stored
                return isChanged ? current : nil
            }
            if isChanged { changed.insert(key) }
        }
        return changed
    }
}

/// Items that the app has read itself, and removes itself.
struct GivenItems: SourceItems {
    let items: [String: SourceValue]
    let removal: (@Sendable (Set<String>) throws -> Void)?

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { items.keys.sorted() }

    func holds(_ key: String) -> Bool { items[key] != nil }

    func item(forKey key: String) -> SourceItem? { items[key].map { SourceItem($0) } }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        try removal?(Set(items.keys))
        return []
    }
}

/// A source that could not be opened. Every call throws the reason.
struct UnopenedItems: SourceItems {
    let error: any Error

    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String] { throw error }

    func item(forKey key: String) throws -> SourceItem? { throw error }

    func holds(_ key: String) throws -> Bool { throw error }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> { throw error }
}
