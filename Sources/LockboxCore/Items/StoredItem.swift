public import LockboxPlatform

/// A complete item: key, value and attributes.
public struct StoredItem: Sendable, Hashable {
    /// The prefix and the key.
    public let key: ItemKey

    /// The encoded value and its format.
    public let value: ArchivedValue

    /// The metadata. ``ItemAttributes/size`` and ``ItemAttributes/format`` are those of ``value``.
    public let attributes: ItemAttributes

    /// Creates an item to store.
    ///
    /// - Parameters:
    ///   - key: The prefix and the key.
    ///   - value: The encoded value and its format.
    ///   - accessibility: When the value can be read.
    ///   - created: When the item was first archived. If `nil`, `modified`. When a backend replaces an item, it
    ///     keeps the old item's date.
    ///   - modified: The date of the write. The write's policy uses it to decide whether an existing item has
    ///     expired.
    ///   - expires: When the item expires. If `nil`, it never expires.
    ///   - label: A short text for people.
    ///   - comment: A longer text for people.
    ///   - searchable: Texts by name that the item can be found by.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)``; see ``ItemAttributes``.
    public init(
        key: ItemKey,
        value: ArchivedValue,
        accessibility: Accessibility = .whenUnlocked,
        created: Date? = nil,
        modified: Date,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        searchable: [String: String] = [:]
    ) throws(LockboxError) {
        self.init(
            key: key,
            value: value,
            checked: try ItemAttributes(
                accessibility: accessibility,
                created: created ?? modified,
                modified: modified,
                expires: expires,
                label: label,
                comment: comment,
                searchable: searchable,
                size: value.data.count,
                format: value.format
            )
        )
    }

    /// Returns the item with another origin of its class, unless that is nil.
    package func with(_ origin: ClassOrigin?) -> StoredItem {
        var attributes = attributes
        attributes.origin = origin ?? attributes.origin
        return StoredItem(key: key, value: value, checked: attributes)
    }

    /// Whether another item is the same, but for the claim of a lease.
    package func isSame(as other: StoredItem) -> Bool {
        guard let one = try? claimed(nil), let another = try? other.claimed(nil) else { return false }
        return one == another
    }

    /// Returns the item with the claim of the one in whose place it is to be, if the value is the same: only another value ends it.
    package func keepingClaim(of old: StoredItem?) throws(LockboxError) -> StoredItem {
        guard let old, old.value == value, let claim = old.attributes.claim else { return self }
        return try claimed(claim)
    }

    /// Returns the item with another claim of a lease, or with none.
    package func claimed(_ claim: String?) throws(LockboxError) -> StoredItem {
        StoredItem(key: key, value: value, checked: try attributes.claimed(claim))
    }

    /// Creates an item from attributes that already match `value`.
    @_spi(Extensions) public init(key: ItemKey, value: ArchivedValue, checked attributes: ItemAttributes) {
        self.key = key
        self.value = value
        self.attributes = attributes
    }
}

/// An encoded value and its format.
///
/// Descriptions never show the bytes.
public struct ArchivedValue: Sendable, Hashable {
    /// The maximum size of a value: 16 MiB.
    public static let maximumSize = 16 * 1024 * 1024

    /// The encoded value.
    public let data: Data

    /// The format of ``data``.
    public let format: ValueFormat

    /// Creates a value for a backend to store.
    ///
    /// - Parameters:
    ///   - data: The encoded value.
    ///   - format: The format of `data`.
    /// - Throws: ``LockboxError/valueTooLarge(size:limit:)`` if `data` is larger than ``maximumSize``;
    ///   ``LockboxError/invalidAttribute(name:reason:)`` if the format's number is 0, which no format has.
    public init(data: Data, format: ValueFormat) throws(LockboxError) {
        if format.rawValue == 0 {
            throw LockboxError.invalidAttribute(name: "format", reason: "0 is the number of no format")
        }
        guard data.count <= Self.maximumSize else {
            throw LockboxError.valueTooLarge(size: data.count, limit: Self.maximumSize)
        }
        self.data = data
        self.format = format
    }
}

extension ArchivedValue: Undescribed {
    /// The size and the format, not the bytes.
    package var summary: String { "ArchivedValue(\(data.count) bytes, \(format))" }
}

/// The format of an archived value. Stored, encrypted, with every item.
///
/// The numbers 1 to 127 are reserved for Lockbox; 0 is none. An app's own ``ValueCoder`` uses a number from 128 to 255.
public struct ValueFormat: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// The stored number.
    public let rawValue: UInt8

    /// Creates a format from its number, known or not.
    ///
    /// - Parameter rawValue: 1 to 127 are reserved for Lockbox; 128 to 255 are for apps.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The value's bytes as they are, for a top-level `Data`.
    public static let data = ValueFormat(rawValue: 1)

    /// JSON, as written by default.
    public static let json = ValueFormat(rawValue: 2)

    /// Text written by Lockbox 2. It does not say which type it encodes; the reader must know.
    public static let lockbox2 = ValueFormat(rawValue: 3)

    /// The format's name, or its number if it is unknown.
    public var description: String {
        switch self {
        case .data: "data"
        case .json: "JSON"
        case .lockbox2: "Lockbox 2's text"
        default: "format \(rawValue)"
        }
    }
}

/// An item that was skipped, for example by a list or an export, because it cannot be read.
///
/// It can also stand for all items of a prefix whose folder cannot be used. Its record can then be neither removed nor set
/// aside.
public struct UnreadableItem: Sendable, Equatable {
    /// The item's key, or `nil` if it is not known because the metadata cannot be read either.
    public let key: ItemKey?

    /// Identifies the item's record in its store: see ``LockboxBackend/remove(record:)``.
    public let record: String

    /// Where the record is, for example its path.
    public let location: String

    /// Why the item cannot be read.
    public let error: LockboxError

    /// Creates a description of an item that cannot be read.
    ///
    /// - Parameters:
    ///   - key: The item's key, if it is known.
    ///   - record: Identifies the item's record in its store.
    ///   - location: Where the record is, for example its path.
    ///   - error: Why the item cannot be read.
    public init(key: ItemKey?, record: String, location: String, error: LockboxError) {
        self.key = key
        self.record = record
        self.location = location
        self.error = error
    }

    /// Whether the record itself is damaged. Otherwise it may be readable later, for example with other
    /// permissions or by a newer version.
    public var isDamaged: Bool { error.code == .corrupt || error.code == .authenticationFailed }

    package var finding: StoreFinding {
        let finding = StoreFinding(error, location: location)
        guard let key else { return finding }
        let reason = "\(key.location): \(finding.reason)"
        return StoreFinding(kind: finding.kind, location: finding.location, reason: reason)
    }
}
