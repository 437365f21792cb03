public import LockboxPlatform

/// An item's metadata, which can be read without opening its value.
public struct ItemAttributes: Sendable, Hashable {
    /// The maximum length of a label, of a comment, and of a searchable attribute's text, in bytes of UTF-8.
    package static let maximumTextLength = 4096

    /// The maximum number of searchable attributes.
    package static let maximumSearchableCount = 64

    /// The maximum length of a searchable attribute's name, in bytes of UTF-8.
    package static let maximumNameLength = 256

    /// The maximum length of all searchable attributes together, names and texts, in bytes of UTF-8.
    package static let maximumSearchableLength = 16_384

    /// When the value can be read.
    public let accessibility: Accessibility

    /// When the item was first archived. Replacing the value keeps this date.
    public let created: Date

    /// When the item was last archived or changed.
    public let modified: Date

    /// When the item expires. From this instant on it reads as absent. If `nil`, it never expires.
    public let expires: Date?

    /// A short text for people, like a label in the Keychain. Not for secrets: it is encrypted with the device
    /// key only.
    public let label: String?

    /// A longer text for people, like a comment in the Keychain. Not for secrets: it is encrypted with the
    /// device key only.
    public let comment: String?

    /// Texts by name that the item can be found by. Empty if there are none. Not for secrets: they are encrypted with the device
    /// key only.
    public private(set) var searchable: [String: String]

    /// The length of the archived value in bytes, before encryption and padding.
    public let size: Int

    /// The format of the archived value.
    public let format: ValueFormat

    /// The origin of ``accessibility``.
    package var origin = ClassOrigin(.unlocked)

    /// Creates the attributes of an item.
    ///
    /// - Parameters:
    ///   - accessibility: When the value can be read.
    ///   - created: When the item was first archived.
    ///   - modified: When the item was last archived or changed.
    ///   - expires: When the item expires. If `nil`, it never expires.
    ///   - label: A short text for people, at most 4,096 bytes of UTF-8.
    ///   - comment: A longer text for people, at most 4,096 bytes of UTF-8.
    ///   - searchable: At most 64 texts by name. A name has 1 to 256
    ///     bytes of UTF-8, a text at most 4,096, all of them together at most
    ///     16,384.
    ///   - size: The length of the archived value in bytes.
    ///   - format: The format of the archived value.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if a limit is exceeded, or a date is not finite.
    public init(
        accessibility: Accessibility,
        created: Date,
        modified: Date,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        searchable: [String: String] = [:],
        size: Int,
        format: ValueFormat
    ) throws(LockboxError) {
        for (name, date) in [("created", created), ("modified", modified), ("expires", expires)] {
            guard date?.timeIntervalSinceReferenceDate.isFinite ?? true else {
                throw LockboxError.invalidAttribute(name: name, reason: "the date is not a finite number")
            }
        }
        try Self.check(label?.utf8.count, "label")
        try Self.check(comment?.utf8.count, "comment")
        try Self.check(searchable)
        self.accessibility = accessibility
        self.created = created
        self.modified = modified
        self.expires = expires
        self.label = label
        self.comment = comment
        self.searchable = searchable
        self.size = size
        self.format = format
    }

    private static func check(_ searchable: [String: String]) throws(LockboxError) {
        if searchable.isEmpty { return }
        let name = "attributes"
        guard searchable.count <= maximumSearchableCount else {
            throw .invalidAttribute(
                name: name,
                reason: "\(searchable.count) attributes; the limit is \(maximumSearchableCount)"
            )
        }
        var length = 0
        for (key, text) in searchable {
            if key.isEmpty { throw .invalidAttribute(name: name, reason: "a name is empty") }
            try check(key.utf8.count, name, limit: maximumNameLength)
            try check(text.utf8.count, name)
            length += key.utf8.count + text.utf8.count
        }
        try check(length, name, limit: maximumSearchableLength)
    }

    private static func check(_ length: Int?, _ name: String, limit: Int = maximumTextLength)
        throws(LockboxError)
    {
        guard let length, length > limit else { return }
        throw .invalidAttribute(name: name, reason: "\(length) bytes of UTF-8; the limit is \(limit)")
    }

    /// Returns whether every given pair is among the searchable attributes.
    ///
    /// - Parameter pairs: Texts by name. If there are none, every item matches. Texts are compared by their bytes: two spellings
    ///   that Unicode takes for the same are different.
    package func matches(_ pairs: [String: String]) -> Bool {
        pairs.allSatisfy { name, text in searchable[name].map { $0.utf8.elementsEqual(text.utf8) } ?? false }
    }

    /// Returns whether the item has expired: whether ``expires`` is at or before `now`.
    ///
    /// - Parameter now: The current time. If `nil`, the result is `false`.
    public func isExpired(at now: Date?) -> Bool {
        guard let now, let expires else { return false }
        return expires <= now
    }
}

/// The claim of a lease, an attribute of the item: it has the item's class, goes where the item goes, and ends with its value.
extension ItemAttributes {
    package static let claimName = "lockbox.claim"

    package var claim: String? { searchable[Self.claimName] }

    package func claimed(_ claim: String?) throws(LockboxError) -> ItemAttributes {
        var attributes = self
        attributes.searchable[Self.claimName] = claim
        try Self.check(attributes.searchable)
        return attributes
    }
}
