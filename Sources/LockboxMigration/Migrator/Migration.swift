import LockboxCore

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
    public let name: String?

    /// The source of the items.
    public let source: MigrationSource

    /// The items to migrate, in order.
    public let items: [Item]

    /// Whether the old items are kept.
    public let keepsOldItems: Bool

    /// Creates a migration. Nothing is migrated yet.
    ///
    /// - Parameters:
    ///   - name: A name that never changes and that no other migration uses: not empty, at most 4,096 bytes of
    ///     UTF-8. If `nil`, nothing is remembered and every run starts from the beginning, like an import on
    ///     request.
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
    ///     request.
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
