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
