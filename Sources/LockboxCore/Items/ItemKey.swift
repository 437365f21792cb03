/// Identifies an item by a key prefix and a key.
///
/// The two parts are never joined: prefix `a.b` with key `c` differs from prefix `a` with key `b.c`. Both are
/// compared like Swift strings, so canonically equivalent Unicode strings are equal.
public struct ItemKey: Sendable, Hashable {
    /// The maximum length of a prefix, and of a key, in bytes of UTF-8, before and after normalization to form
    /// C.
    package static let maximumLength = 4096

    /// The namespace: an app's bundle identifier, or a name that several programs share.
    public let prefix: String

    /// The item's name within the prefix.
    public let key: String

    /// Creates an item key.
    ///
    /// - Parameters:
    ///   - prefix: The namespace.
    ///   - key: The item's name within the prefix.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if either part is empty or longer than 4,096 bytes of UTF-8,
    ///   or if the prefix begins with a NUL character. Such prefixes are reserved for Lockbox's own records.
    public init(prefix: String, key: String) throws(LockboxError) {
        try Self.checkPrefix(prefix)
        try Self.check(key, "key")
        self.prefix = prefix
        self.key = key
    }

    /// Creates the key of an item that a backend has stored, whose prefix may be reserved: see ``isReserved(prefix:)``.
    ///
    /// For backends that make keys of what they have stored. Apps use ``init(prefix:key:)``.
    ///
    /// - Parameters:
    ///   - prefix: The namespace.
    ///   - key: The item's name within the prefix.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if either part is empty or longer than 4,096 bytes of UTF-8.
    public init(storedPrefix prefix: String, key: String) throws(LockboxError) {
        try Self.check(prefix, "key prefix")
        try Self.check(key, "key")
        self.prefix = prefix
        self.key = key
    }

    /// How errors and findings name the item.
    package var location: String { Self.location(ofKey: key) }

    package static func location(ofKey key: String) -> String {
        "the item for the key \(String(reflecting: key))"
    }

    /// Returns whether a prefix is reserved for Lockbox's own records: whether it begins with a NUL.
    ///
    /// Lockbox keeps the state of migrations in items with such prefixes, and tests a store with one before it relies on it. A
    /// backend stores, lists and removes them like others, also in a `ThisDeviceOnly` class that it refuses for other items. Only
    /// ``LockboxBackend/prefixes()`` leaves their prefixes out.
    ///
    /// - Parameter prefix: The prefix of an item.
    public static func isReserved(prefix: String) -> Bool { prefix.utf8.first == 0 }

    package static func checkPrefix(_ prefix: String) throws(LockboxError) {
        try check(prefix, "key prefix")
        if isReserved(prefix: prefix) {
            throw LockboxError.invalidKey(reason: "the key prefix begins with a NUL character")
        }
    }

    /// Checks a prefix from outside the program, under which items are to be made. Those that are stored may have any.
    ///
    /// - Throws: ``LockboxError/invalidKey(reason:)`` for what a shell or a template was to complete.
    @_spi(Extensions)
    public static func checkIsWrittenOut(_ prefix: String) throws(LockboxError) {
        guard let sign = Unexpanded.sign(in: prefix) else { return }
        throw LockboxError.invalidKey(reason: "the key prefix \(ShownText.line(prefix)) \(sign)")
    }

    private static func check(_ text: String, _ what: String) throws(LockboxError) {
        if text.isEmpty { throw LockboxError.invalidKey(reason: "the \(what) is empty") }
        let length = text.isASCII ? text.utf8.count : max(text.utf8.count, text.canonical.utf8.count)
        if length > maximumLength {
            throw LockboxError.invalidKey(
                reason: "the \(what) has \(length) bytes of UTF-8; the limit is \(maximumLength)"
            )
        }
    }
}

extension ItemKey: Codable {
    /// Decodes a prefix and a key, and validates them like ``init(prefix:key:)``. A reserved prefix is refused: a backend
    /// decodes the two strings, and calls ``init(storedPrefix:key:)``.
    ///
    /// - Parameter decoder: The decoder to read from.
    /// - Throws: `DecodingError.dataCorrupted` if the prefix or the key is invalid, with the ``LockboxError``
    ///   as its underlying error.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let prefix = try container.decode(String.self, forKey: .prefix)
        let key = try container.decode(String.self, forKey: .key)
        do { try self.init(prefix: prefix, key: key) } catch {
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: "\(error)", underlyingError: error)
            )
        }
    }
}

extension String {
    /// The string in Unicode normalization form C, in which canonically equivalent strings have the same bytes.
    @_spi(Extensions) public var canonical: String {
        isASCII ? self : String(decoding: _nfcCodeUnits, as: UTF8.self)
    }

    var isASCII: Bool {
        utf8.withContiguousStorageIfAvailable { $0.allSatisfy { $0 < 0x80 } } ?? utf8.allSatisfy { $0 < 0x80 }
    }
}
