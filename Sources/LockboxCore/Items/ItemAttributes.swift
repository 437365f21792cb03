public import LockboxPlatform

/// An item's metadata, which can be read without opening its value.
public struct ItemAttributes: Sendable, Hashable {
    /// The maximum length of a label, and of a comment, in bytes of UTF-8.
    public static let maximumTextLength = 4096

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

    /// The length of the archived value in bytes, before encryption and padding.
    public let size: Int

    /// The format of the archived value.
    public let format: ValueFormat

    /// Creates the attributes of an item.
    ///
    /// - Parameters:
    ///   - accessibility: When the value can be read.
    ///   - created: When the item was first archived.
    ///   - modified: When the item was last archived or changed.
    ///   - expires: When the item expires. If `nil`, it never expires.
    ///   - label: A short text for people, at most ``maximumTextLength`` bytes of UTF-8.
    ///   - comment: A longer text for people, at most ``maximumTextLength`` bytes of UTF-8.
    ///   - size: The length of the archived value in bytes.
    ///   - format: The format of the archived value.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if a text is longer than
    ///   ``maximumTextLength``, or a date is not finite.
    public init(
        accessibility: Accessibility,
        created: Date,
        modified: Date,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        size: Int,
        format: ValueFormat
    ) throws(LockboxError) {
        for (name, date) in [("created", created), ("modified", modified), ("expires", expires)] {
            guard date?.timeIntervalSinceReferenceDate.isFinite ?? true else {
                throw LockboxError.invalidAttribute(name: name, reason: "the date is not a finite number")
            }
        }
        for (name, text) in [("label", label), ("comment", comment)] {
            guard let length = text?.utf8.count, length > Self.maximumTextLength else { continue }
            throw LockboxError.invalidAttribute(
                name: name,
                reason: "\(length) bytes of UTF-8; the limit is \(Self.maximumTextLength)"
            )
        }
        self.accessibility = accessibility
        self.created = created
        self.modified = modified
        self.expires = expires
        self.label = label
        self.comment = comment
        self.size = size
        self.format = format
    }

    /// Returns whether the item has expired: whether ``expires`` is at or before `now`.
    ///
    /// - Parameter now: The current time. If `nil`, the result is `false`.
    public func isExpired(at now: Date?) -> Bool {
        guard let now, let expires else { return false }
        return expires <= now
    }

    /// Returns the attributes with the given ones replaced.
    package func changing(accessibility: Accessibility? = nil, created: Date? = nil, modified: Date? = nil)
        throws(LockboxError)
        -> Self
    {
        try ItemAttributes(
            accessibility: accessibility ?? self.accessibility,
            created: created ?? self.created,
            modified: modified ?? self.modified,
            expires: expires,
            label: label,
            comment: comment,
            size: size,
            format: format
        )
    }
}
