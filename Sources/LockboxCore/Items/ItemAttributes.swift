public import LockboxPlatform

/// What is known of an item without opening its value.
public struct ItemAttributes: Sendable, Hashable {
    /// The longest label, and the longest comment, in bytes of UTF-8.
    public static let maximumTextLength = 4096

    /// When the value can be read.
    public let accessibility: Accessibility

    /// When the item was first archived. A replace keeps it.
    public let created: Date

    /// When the item was last archived or changed.
    public let modified: Date

    /// From this instant on the item reads as absent. `nil`: never.
    public let expires: Date?

    /// A short text for people, as Keychain's label. Sealed with the device key only, so not for secrets.
    public let label: String?

    /// A longer text for people, as Keychain's comment. Sealed with the device key only, so not for secrets.
    public let comment: String?

    /// The length of the archived value in bytes, before sealing and padding.
    public let size: Int

    /// How the value's bytes are to be read.
    public let format: ValueFormat

    /// Attributes of an item.
    ///
    /// - Parameters:
    ///   - accessibility: When the value can be read.
    ///   - created: When the item was first archived.
    ///   - modified: When it was last archived or changed.
    ///   - expires: From then on it reads as absent. `nil`: never.
    ///   - label: At most ``maximumTextLength`` bytes of UTF-8.
    ///   - comment: At most ``maximumTextLength`` bytes of UTF-8.
    ///   - size: The length of the archived value in bytes.
    ///   - format: How the value's bytes are to be read.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` for a text over ``maximumTextLength`` or a
    ///   date that is not a finite number of seconds.
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

    /// Whether the item reads as absent at `now`: from ``expires`` on, that instant included.
    ///
    /// - Parameter now: The date to go by. Nil: never expired.
    public func isExpired(at now: Date?) -> Bool {
        guard let now, let expires else { return false }
        return expires <= now
    }

    /// The same attributes but for those given.
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
