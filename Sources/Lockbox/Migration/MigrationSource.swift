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
    /// The prefix of the items' keys, or nil if the source is not a backend, so that its keys may be any strings.
    let keyPrefix: (@Sendable (Lockbox) -> String)?

    init(
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

    /// Creates a source of a kind that an extension reads.
    ///
    /// - Parameter open: Called when a migration begins. Its error ends the migration, unless all items are done.
    @_spi(Extensions)
    public init(open: @escaping @Sendable (_ lockbox: Lockbox) throws -> any SourceItems) {
        self.init { lockbox, _ in try open(lockbox) }
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
                destination: $0,
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
                    destination: $0,
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
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func keys(for lockbox: Lockbox, unreadable: (UnreadableItem) throws -> Void = { throw $0.error })
        throws
        -> [String]
    {
        try open(lockbox, lockbox.now()).keys(unreadable: unreadable)
    }
}

/// The items of a source when a migration begins.
@_spi(Extensions)
public protocol SourceItems {
    /// Returns the items' keys, in the order of the source if it has one.
    ///
    /// - Parameter unreadable: Called with each item whose key is not known, because it cannot be read.
    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String]

    /// Returns an item, or nil if it does not exist.
    ///
    /// - Throws: ``MigrationRefusal`` if this item cannot be migrated; another error if the migration is to end.
    func item(forKey key: String) throws -> SourceItem?

    /// Returns whether an item that an earlier run has done is there again. Does not read its value.
    func holds(_ key: String) throws -> Bool

    /// Checks that items can be removed, before anything is stored.
    ///
    /// The default implementation does nothing.
    ///
    /// - Throws: The error that a removal would throw.
    func checkRemoval() throws

    /// Removes items that have not changed since they were read.
    ///
    /// - Returns: The keys of the items that have changed, which are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String>
}

@_spi(Extensions) extension SourceItems {
    /// Does nothing.
    public func checkRemoval() throws {}
}

/// An item of a source.
@_spi(Extensions)
public struct SourceItem: Sendable {
    /// Its value.
    public let value: SourceValue
    /// The item in a backend, if the source is one.
    let original: Original?
    /// The item's attributes, if the source knows more than its value. The new item keeps all but the date of
    /// modification.
    public let attributes: ItemAttributes?

    /// Creates an item.
    public init(_ value: SourceValue, attributes: ItemAttributes? = nil) {
        (self.value, original, self.attributes) = (value, nil, attributes)
    }

    init(_ original: Original) {
        value = .bytes(original.item.value.data, isOwn: true)
        (self.original, attributes) = (original, original.item.attributes)
    }

    /// The item as stored in a backend, if the source is one.
    var stored: StoredItem? { original?.item }

    /// The stored item, if it is in a new format. It is moved as it is.
    var new: StoredItem? { stored.flatMap { $0.value.format == .lockbox2 ? nil : $0 } }
}

/// An item's value in the source.
@_spi(Extensions)
public enum SourceValue: Sendable, Equatable {
    /// Bytes without a type. `isOwn`: stored by this library, so empty bytes are an empty string, and never an empty
    /// collection.
    case bytes(Data, isOwn: Bool)
    /// A value with a type.
    case typed(any TypedValue)

    /// Compares values with a type bit for bit.
    public static func == (one: SourceValue, other: SourceValue) -> Bool {
        switch (one, other) {
        case (.bytes(let one, let isOwn), .bytes(let other, let isOthers)): one == other && isOwn == isOthers
        case (.typed(let one), .typed(let other)): one.isIdentical(to: other)
        default: false
        }
    }

    /// Returns the value if it is bytes, with a type or without.
    public func bytes() throws(MigrationRefusal) -> [UInt8] {
        switch self {
        case .bytes(let data, _): return [UInt8](data)
        case .typed(let value):
            guard let data = try? value.decoded(as: Data.self) else { throw .wrongType(expected: "Data") }
            return [UInt8](data)
        }
    }

    /// Decodes a value with a type.
    ///
    /// - Parameter decode: Decodes bytes without one.
    public func decode<Value: Decodable>(_ decode: (Data) throws -> Value) throws -> Value {
        switch self {
        case .bytes(let data, _): try decode(data)
        case .typed(let value): try value.decoded(as: Value.self)
        }
    }

    func decodeCollection<Value: Decodable>(_ decode: (String) throws -> Value) throws -> Value {
        // Before 1.4.7, Lockbox stored an empty collection like one with an empty string.
        if case .bytes(let data, isOwn: false) = self, data.isEmpty {
            throw MigrationRefusal.lossy("empty data is ambiguous: an empty collection, or one empty string")
        }
        return try self.decode { try decode(Lockbox2Text.string($0)) }
    }
}

/// A value whose source records its type.
@_spi(Extensions)
public protocol TypedValue: Sendable {
    /// Decodes the value without loss.
    func decoded<Value: Decodable>(as type: Value.Type) throws -> Value

    /// Compares bit for bit: strings in different Unicode forms differ.
    func isIdentical(to other: any TypedValue) -> Bool
}

/// Items of a backend.
struct BackendItems: SourceItems {
    let backend: any LockboxBackend
    /// Where the items are to go. Its backend may be the same, or another one.
    let destination: Lockbox
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

    /// An item of a new form that the destination has under the same key, too, may be the same one, if both are the same store.
    func holds(_ key: String) throws -> Bool {
        let key = try ItemKey(prefix: keyPrefix, key: key)
        guard let attributes = try backend.attributes(for: key, now: now) else { return false }
        if attributes.format == .lockbox2 { return true }
        if isStore { return false }
        return try keyPrefix != destination.keyPrefix
            || destination.backend.attributes(for: key, now: now) != attributes
    }

    func item(forKey key: String) throws -> SourceItem? {
        try backend.original(for: ItemKey(prefix: keyPrefix, key: key), now: now).map { SourceItem($0) }
    }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        let originals = items.sorted { $0.key < $1.key }.compactMap(\.value.original)
        return try Set(originals.filter { try !$0.remove() }.map(\.item.key.key))
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
