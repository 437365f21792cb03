public import LockboxCore
import LockboxPlatform

extension Lockbox {
    /// Migrates items from an older version of the app, or from another library, into this lockbox.
    ///
    /// All old items are read before anything is written, and each new item is read back before the old one is
    /// removed. An item that cannot be read, or cannot be converted exactly, is left unchanged and listed in the report. An
    /// existing item in the new format is never overwritten.
    ///
    /// If the migration has a name, the store remembers which items are done. A later run migrates a done item again only
    /// if it has reappeared in the source, for example because an older version of the app has run. If the source cannot be
    /// searched, the item is refused. If old items are kept, done items are skipped. Items that were refused or absent are
    /// tried again. The next run completes an interrupted migration. If several processes run it at the same time, one does
    /// the work and the others wait. If that process is killed, or makes no progress for five seconds, another one takes
    /// over.
    ///
    /// - Parameters:
    ///   - migration: The items to migrate, and their source.
    ///   - dryRun: Whether only to report what would be done. With a backend that has no
    ///     ``LockboxBackend/lockState``, a dry run cannot tell whether the new accessibility classes are open.
    ///   - progress: Called after each item. Not called in a dry run.
    /// - Returns: The outcome for each item.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item or its new class is locked, before
    ///   anything is migrated; ``LockboxError/invalidKey(reason:)`` if its name or a key is empty or too long,
    ///   or if its items contradict each other: two have the same old or new key, one moves to the old key of
    ///   another, or an old item is to be kept under the new item's key;
    ///   ``LockboxError`` if the source or the store cannot be read or written. No item is lost, and the
    ///   migration can be repeated.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> MigrationReport {
        let run = try MigrationRun(migration, self, isDryRun: dryRun)
        return try dryRun ? run.dryRun() : run.perform(progress)
    }
}

/// Describes which items to migrate, from where, and how.
///
/// ```swift
/// let report = try lockbox.migrate(
///     Migration(
///         "from Lockbox 2",
///         .string("token", accessibility: .afterFirstUnlock),
///         .array("recent searches", to: "searches"),
///         .date("last login")
///     )
/// )
/// for (key, refusal) in report.refused { print("\(key): \(refusal)") }
/// ```
///
/// Run it at the start of the app with ``Lockbox``'s `migrate`.
public struct Migration: Sendable {
    /// The name under which the store remembers, for each key prefix, which items are done. If `nil`, nothing
    /// is remembered.
    let name: String?

    /// The source of the items.
    let source: MigrationSource

    /// The items to migrate, in order.
    let items: [Item]

    /// Whether the old items are kept.
    let keepsOldItems: Bool

    /// Creates a migration. Nothing is migrated yet.
    ///
    /// - Parameters:
    ///   - name: A name that never changes and that no other migration uses: not empty, at most 4,096 bytes of
    ///     UTF-8. If `nil`, nothing is remembered and every run starts from the beginning, like an import on
    ///     request. Two such runs do not wait for each other: what is removed meanwhile may come back.
    ///   - source: The source of the items. By default, items that Lockbox 2 stored in this store.
    ///   - items: The items to migrate, in the order of the report.
    ///   - keepsOldItems: Whether to keep the old items, so that the app can be downgraded. Not possible for
    ///     items that keep their key in the same store.
    public init(
        _ name: String?,
        from source: MigrationSource = .store,
        _ items: Item...,
        keepsOldItems: Bool = false
    ) {
        self.init(name, from: source, items: items, keepsOldItems: keepsOldItems)
    }

    /// Creates a migration from an array of items. Nothing is migrated yet.
    ///
    /// - Parameters:
    ///   - name: A name that never changes and that no other migration uses: not empty, at most 4,096 bytes of
    ///     UTF-8. If `nil`, nothing is remembered and every run starts from the beginning, like an import on
    ///     request. Two such runs do not wait for each other: what is removed meanwhile may come back.
    ///   - source: The source of the items. By default, items that Lockbox 2 stored in this store.
    ///   - items: The items to migrate, in the order of the report.
    ///   - keepsOldItems: Whether to keep the old items, so that the app can be downgraded. Not possible for
    ///     items that keep their key in the same store.
    public init(
        _ name: String?,
        from source: MigrationSource = .store,
        items: [Item],
        keepsOldItems: Bool = false
    ) {
        self.name = name
        self.source = source
        self.items = items
        self.keepsOldItems = keepsOldItems
    }
}

extension Migration {
    /// An item to migrate: its old key and encoding, and optionally a new key and a new accessibility class.
    ///
    /// The bytes that Lockbox 2 and other Keychain wrappers store do not say how they are encoded. The encoding
    /// is chosen by the method that creates the item, as it was by the old getter. Each method names the type
    /// of the new item's value, which `unarchiveObject` then reads.
    public struct Item: Sendable {
        /// The key in the source.
        let key: String

        /// The item's new key.
        let newKey: String

        /// The item's new accessibility class. If `nil`, the old one is kept; an item without a class gets
        /// `whenUnlocked`.
        let accessibility: Accessibility?

        /// The texts by name that a new item can be found by.
        let attributes: [String: String]

        let typeName: String
        let decode: @Sendable (SourceValue) throws -> (any MigratedValue)?

        /// Creates an item from a form that an extension reads.
        ///
        /// - Parameter decode: Returns the value, or nil if the old item holds none and so counts as absent. Any error other
        ///   than a ``MigrationRefusal`` is reported as a wrong type.
        @_spi(Extensions)
        public init<Value: Codable & Sendable>(
            _ key: String,
            to newKey: String?,
            accessibility: Accessibility?,
            attributes: [String: String] = [:],
            decode: @escaping @Sendable (SourceValue) throws -> Value?
        ) {
            self.key = key
            self.newKey = newKey ?? key
            self.accessibility = accessibility
            self.attributes = attributes
            typeName = "\(Value.self)"
            self.decode = { try decode($0).map { Migrated(value: $0) } }
        }

        /// A string, as stored by `setString` of Lockbox 2 and by most Keychain wrappers. Becomes a `String`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func string(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, to: newKey, accessibility: accessibility) { try $0.decode(Lockbox2Text.string) }
        }

        /// Bytes. Becomes a `Data`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func data(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, to: newKey, accessibility: accessibility) { try $0.decode { $0 } }
        }

        /// An array, as stored by `setArray` of Lockbox 2. Becomes a `[String]`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func array(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, to: newKey, accessibility: accessibility) {
                try $0.decodeCollection(Lockbox2Text.array)
            }
        }

        /// A set, as stored by `setSet` of Lockbox 2. Becomes a `Set<String>`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func set(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, to: newKey, accessibility: accessibility) { try $0.decodeCollection(Lockbox2Text.set) }
        }

        /// A dictionary, as stored by `setDictionary` of Lockbox 2. Becomes a `[String: String]`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func dictionary(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, to: newKey, accessibility: accessibility) {
                try $0.decodeCollection(Lockbox2Text.dictionary)
            }
        }

        /// A date, as stored by `setDate` of Lockbox 2. Becomes a `Date`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func date(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, to: newKey, accessibility: accessibility) {
                try $0.decode { try Lockbox2Text.date(Lockbox2Text.string($0)) }
            }
        }
    }
}

extension Migration: Undescribed {
    /// The migration's name and the old keys.
    package var summary: String {
        "Migration(\(name.map { String(reflecting: $0) } ?? "unnamed"), \(items.map(\.key)))"
    }
}

extension Migration.Item: Undescribed {
    /// The old key, the new key and the value's type.
    package var summary: String {
        "Item(\(String(reflecting: key)), to: \(String(reflecting: newKey)), \(typeName))"
    }
}

extension MigrationSource: Undescribed {}
