import LockboxCore

/// What an older version of the app, or another library, has stored, and what is to become of it.
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
/// To be run at the start of the app, by ``Lockbox/migrate(_:dryRun:progress:)-method``.
public struct Migration: Sendable {
    /// Under this name it is remembered what of the migration is done, for each key prefix. Nil: it is not remembered.
    public let name: String?

    /// Where the items are now.
    public let source: MigrationSource

    /// What is to be migrated, in this order.
    public let items: [Item]

    /// Whether the old items stay where they are.
    public let keepsOldItems: Bool

    /// A migration, which does nothing by itself.
    ///
    /// - Parameters:
    ///   - name: Not empty, at most 4,096 bytes of UTF-8. Always the same; another migration needs another. Nil for one that
    ///     is done anew each time, such as an import that somebody asks for.
    ///   - source: Where the items are now. By default in the store, as Lockbox 2 wrote them.
    ///   - items: What is to be migrated, and in which order it is reported.
    ///   - keepsOldItems: Whether the old items stay where they are, for a way back. Not possible for items that keep
    ///     their key in the same store.
    public init(
        _ name: String?,
        from source: MigrationSource = .store,
        _ items: Item...,
        keepsOldItems: Bool = false
    ) {
        self.init(name, from: source, items: items, keepsOldItems: keepsOldItems)
    }

    /// As ``init(_:from:_:keepsOldItems:)``, for items that are made elsewhere.
    ///
    /// - Parameters:
    ///   - name: What it is remembered by; nil, nothing is remembered.
    ///   - source: Where the old items are.
    ///   - items: What is to be migrated, and in which order it is reported.
    ///   - keepsOldItems: Whether the old items stay where they are.
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
