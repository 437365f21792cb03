public import LockboxCore
public import LockboxPlatform

/// Where the items of a ``Migration`` are before it.
///
/// Old items are removed when all new ones are safely stored, and only those that were migrated and have not changed
/// meanwhile.
public struct MigrationSource: Sendable {
    let open: @Sendable (_ lockbox: Lockbox, _ now: Date) throws -> any SourceItems
    /// Whether old and new items share one place.
    let isStore: Bool

    package init(
        isStore: Bool = false,
        open: @escaping @Sendable (_ lockbox: Lockbox, _ now: Date) throws -> any SourceItems
    ) {
        self.open = open
        self.isStore = isStore
    }

    /// The lockbox's own store and prefix: items as Lockbox 2 wrote them, ``ValueFormat/lockbox2``.
    public static let store = MigrationSource(
        isStore: true,
        open: { BackendItems(backend: $0.backend, keyPrefix: $0.keyPrefix, now: $1) }
    )

    /// Another backend, or another prefix: items as Lockbox 2 wrote them, ``ValueFormat/lockbox2``.
    ///
    /// - Parameters:
    ///   - backend: Where they are.
    ///   - keyPrefix: Their prefix; nil for the lockbox's.
    public static func backend(_ backend: any LockboxBackend, keyPrefix: String? = nil) -> MigrationSource {
        MigrationSource { BackendItems(backend: backend, keyPrefix: keyPrefix ?? $0.keyPrefix, now: $1) }
    }

    /// Bytes that the app has read with another library, say from Keychain: of Lockbox 2 or 3, Strongbox,
    /// KeychainAccess, Valet, by the keys that those know them by.
    ///
    /// - Parameters:
    ///   - items: The bytes.
    ///   - remove: Is called with the keys whose new items are safely stored, to remove the old ones; nil leaves that
    ///     to the app. What it throws, ``Lockbox/migrate(_:dryRun:progress:)-method`` throws on; the next run calls it again.
    public static func items(
        _ items: [String: Data],
        remove: (@Sendable (Set<String>) throws -> Void)? = nil
    ) -> MigrationSource {
        let values = items.mapValues { SourceValue.bytes($0, isOwn: false) }
        return MigrationSource { _, _ in GivenItems(items: values, removal: remove) }
    }

    /// The entries of a property list's dictionary, binary or XML. Others stay as they are.
    ///
    /// - Parameter path: The file. It need not be there. It is replaced as a whole, with its owner and permissions.
    public static func propertyList(at path: String) -> MigrationSource { file(path, .propertyList) }

    /// The entries of a JSON file's object. Others stay as they are, byte for byte.
    ///
    /// - Parameter path: The file. It need not be there. It is replaced as a whole, with its owner and permissions.
    public static func json(at path: String) -> MigrationSource { file(path, .json) }

    /// The variables of an `.env` file. Other lines stay as they are, byte for byte.
    ///
    /// - Parameter path: The file. It need not be there. It is replaced as a whole, with its owner and permissions.
    public static func environmentFile(at path: String) -> MigrationSource { file(path, .environment) }

    /// The entries of a netrc file: `login@machine`, or `machine` for one without a login, each a dictionary of
    /// `machine`, `login`, `password` and `account`. The rest stays as it is, byte for byte; a comment inside an entry is part
    /// of it.
    ///
    /// - Parameter path: The file. It need not be there. It is replaced as a whole, with its owner and permissions.
    public static func netrc(at path: String) -> MigrationSource { file(path, .netrc) }

    private static func file(_ path: String, _ format: SourceFile.Format) -> MigrationSource {
        MigrationSource { _, _ in try FileItems(path: path, format: format) }
    }
}
