/// The identity of an item: a key prefix and a key, kept apart.
///
/// The two are never joined, so prefix `a.b` with key `c` is not prefix `a` with key `b.c`. Both are compared
/// as Swift compares strings: canonically equivalent Unicode is one key.
public struct ItemKey: Sendable, Hashable {
    /// The longest prefix, and the longest key, in bytes of UTF-8 after canonical composition.
    public static let maximumLength = 4096

    /// The app's part: its bundle identifier, or a name that several programs share on purpose.
    public let prefix: String

    /// The item's name below the prefix.
    public let key: String

    /// Both parts, checked.
    ///
    /// - Parameters:
    ///   - prefix: The app's part.
    ///   - key: The item's name below the prefix.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if either part is empty or longer than
    ///   ``maximumLength``, or if the prefix begins with a NUL: such prefixes are for Lockbox's own records.
    public init(prefix: String, key: String) throws(LockboxError) {
        try Self.checkPrefix(prefix)
        try Self.check(key, "key")
        self.prefix = prefix
        self.key = key
    }

    /// Of a record that is there, whoever wrote it.
    package init(storedPrefix prefix: String, key: String) throws(LockboxError) {
        try Self.check(prefix, "key prefix")
        try Self.check(key, "key")
        self.prefix = prefix
        self.key = key
    }

    package static func isReserved(prefix: String) -> Bool { prefix.utf8.first == 0 }

    static func checkPrefix(_ prefix: String) throws(LockboxError) {
        try check(prefix, "key prefix")
        if isReserved(prefix: prefix) {
            throw LockboxError.invalidKey(reason: "the key prefix begins with a NUL")
        }
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
    /// Decodes a prefix and a key, and checks them as ``init(prefix:key:)`` does.
    ///
    /// - Parameter decoder: Where they come from.
    /// - Throws: `DecodingError.dataCorrupted`, with the ``LockboxError`` as its underlying error, for a prefix or key that is
    ///   not valid.
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
    /// Unicode normalization form C: the one spelling of all strings that Swift holds equal.
    package var canonical: String {
        isASCII ? self : String(decoding: _nfcCodeUnits, as: UTF8.self)
    }

    var isASCII: Bool {
        utf8.withContiguousStorageIfAvailable { $0.allSatisfy { $0 < 0x80 } } ?? utf8.allSatisfy { $0 < 0x80 }
    }
}
