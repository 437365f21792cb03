@_spi(Extensions) public import Lockbox
public import LockboxPlatform

extension MigrationSource {
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
    /// - Parameters:
    ///   - path: The file, of at most 16 MiB, which need not exist. It is replaced atomically, with the same owner
    ///     and permissions. If it is not a regular file, or has other hard links or an access control list, calls throw
    ///     ``LockboxError/unsafePermissions(path:reason:)``. If it is not in this format, or cannot be read without
    ///     loss, they throw ``LockboxError/sourceRefused(path:reason:)``.
    ///   - dialect: The program whose rules the file follows.
    ///   - text: The file's bytes, if they were read already, for example from a pipe. Then nothing can be removed.
    public static func environmentFile(
        at path: String,
        dialect: EnvironmentDialect = .common,
        text: Data? = nil
    ) -> MigrationSource {
        file(path, .environment(dialect), text)
    }

    /// The entries of a netrc file. An entry's key is `login@machine`, or `machine` if it has no login, followed by its protocol and
    /// its port, each after a `:`, if it has them. Its value is a dictionary of `machine`, `login`, `password`, `account`, `port` and
    /// `protocol`. `user` is read as `login`.
    ///
    /// The rest of the file is kept byte for byte. A comment inside an entry belongs to the entry.
    ///
    /// - Parameters:
    ///   - path: The file, of at most 16 MiB, which need not exist. It is replaced atomically, with the same owner
    ///     and permissions. If it is not a regular file, or has other hard links or an access control list, calls throw
    ///     ``LockboxError/unsafePermissions(path:reason:)``. If it is not in this format, or cannot be read without
    ///     loss, they throw ``LockboxError/sourceRefused(path:reason:)``.
    ///   - text: The file's bytes, if they were read already, for example from a pipe. Then nothing can be removed.
    public static func netrc(at path: String, text: Data? = nil) -> MigrationSource {
        file(path, .netrc, text)
    }

    private static func file(_ path: String, _ format: SourceFile.Format, _ text: Data? = nil)
        -> MigrationSource
    {
        MigrationSource { _ in
            guard let text else { return try FileItems(path: path, format: format) }
            return try FileItems(text: Array(text), named: path, format: format)
        }
    }
}

extension InternetPassword {
    /// The internet password for the key of a netrc entry, or nil for one without a machine or a login. The protocol is `https` if
    /// the entry names none.
    ///
    /// - Parameter netrcKey: The key: `login@machine`, followed by its protocol and its port, each after a `:`.
    public init?(netrcKey: String) {
        let form = /(.+)@([A-Za-z0-9._-]+)(?::([A-Za-z][A-Za-z0-9+.-]*))?(?::([1-9][0-9]{0,4}))?/
        guard let found = netrcKey.wholeMatch(of: form), found.2 != "default",
            found.4.map({ UInt16($0) != nil }) ?? true
        else { return nil }
        self.init(
            server: found.2.lowercased(),
            account: String(found.1),
            protocol: found.3?.lowercased() ?? "https",
            port: found.4.flatMap { Int($0) }
        )
    }
}

extension Migration.Item {
    /// An `NSKeyedArchiver` archive, as stored by `archiveObject` of Lockbox 3, binary or in XML. Becomes a
    /// `type`.
    ///
    /// Reads strings, numbers (a decimal number as a `Decimal`), booleans, dates, data, URLs, UUIDs, null,
    /// and arrays, sets, ordered sets and dictionaries of them. No class of the archive is instantiated.
    /// The item is refused if `type` does not decode all of the data. An archive of nil counts as absent:
    /// Lockbox 3 left one where an item was removed with nil.
    ///
    /// - Parameters:
    ///   - key: The key in the source.
    ///   - type: The type to decode.
    ///   - topKey: The key inside the archive. By default `key`, as in Lockbox 3.
    ///     `NSKeyedArchiver.archivedData(withRootObject:requiringSecureCoding:)` uses `root`. Objects
    ///     encoded without keys have the keys `$0`, `$1` and so on; if there is only one, it is read
    ///     whatever `topKey` is.
    ///   - newKey: The new key. By default, the same.
    ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
    ///     is none.
    public static func archive<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type,
        topKey: String? = nil,
        to newKey: String? = nil,
        accessibility: Accessibility? = nil
    ) -> Self {
        Self(key, to: newKey, accessibility: accessibility) { value in
            try reading { try KeyedArchive(value.bytes()).value(forKey: topKey ?? key).decode(type) }
        }
    }

    /// A value stored by Strongbox: the JSON of a Codable type inside a keyed archive. Becomes a `type`,
    /// decoded like ``json(_:as:to:accessibility:)``.
    ///
    /// - Parameters:
    ///   - key: The key in the source.
    ///   - type: The type to decode.
    ///   - newKey: The new key. By default, the same.
    ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
    ///     is none.
    public static func strongbox<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type,
        to newKey: String? = nil,
        accessibility: Accessibility? = nil
    ) -> Self {
        Self(key, to: newKey, accessibility: accessibility) { value in
            try reading { try KeyedArchive(value.bytes()).json(type, forKey: key) }
        }
    }

    /// JSON, as encoded by `JSONEncoder`. Becomes a `type`.
    ///
    /// Decoded by `JSONDecoder`: it ignores members that the type does not have, picks one of several
    /// members with the same name, and rounds numbers to the precision of the type.
    ///
    /// - Parameters:
    ///   - key: The key in the source.
    ///   - type: The type to decode.
    ///   - newKey: The new key. By default, the same.
    ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
    ///     is none.
    public static func json<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type,
        to newKey: String? = nil,
        accessibility: Accessibility? = nil
    ) -> Self {
        Self(key, to: newKey, accessibility: accessibility) {
            try JSONDecoder().decode(type, from: Data($0.bytes()))
        }
    }

    /// The password of a netrc entry. Becomes an internet password, which git's and Docker's helpers find.
    ///
    /// - Parameters:
    ///   - key: The key in the source.
    ///   - password: The identity under which it is stored.
    ///   - accessibility: The accessibility class.
    public static func netrc(_ key: String, as password: InternetPassword, accessibility: Accessibility)
        -> Self
    {
        Self(
            key,
            to: password.key.name,
            accessibility: accessibility,
            attributes: password.searchable
        ) { value in
            let fields = try value.decode { _ -> [String: String] in [:] }
            if fields["account"] != nil {
                throw MigrationRefusal.lossy("an internet password has no place for its account")
            }
            return fields["password"].map { Data($0.utf8) }
        }
    }

    /// A value whose source records its type, as property lists, JSON files and `UserDefaults` do. Becomes
    /// a `type`, without loss: the item is refused if `type` does not decode all of the data.
    ///
    /// - Parameters:
    ///   - key: The key in the source.
    ///   - type: The type to decode.
    ///   - newKey: The new key. By default, the same.
    ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
    ///     is none.
    public static func value<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type,
        to newKey: String? = nil,
        accessibility: Accessibility? = nil
    ) -> Self {
        Self(key, to: newKey, accessibility: accessibility) {
            try $0.decode { _ -> Value in
                throw MigrationRefusal.lossy(
                    "its source does not record the type; name the encoding, such as .string or .json"
                )
            }
        }
    }
}
