public import LockboxPlatform

/// A value in a query of the Keychain, or of an item's attribute.
public enum KeychainValue: Sendable, Hashable {
    /// A `CFString`.
    case text(String)
    /// A `CFData`.
    case data(Data)
    /// A `CFNumber`.
    case int(Int64)
    /// A `CFBoolean`.
    case bool(Bool)
    /// A `CFDate`.
    case date(Date)
    /// A `SecAccessControl`: the class that it protects the item with, as in `kSecAttrAccessible`, and what the user must
    /// do.
    case accessControl(String, KeychainAccessControl)
}

extension KeychainValue {
    package var text: String? {
        switch self {
        case .text(let text): text
        // An attribute comes back as it was written, and others may have written bytes.
        case .data(let data): String(validating: data, as: UTF8.self)
        default: nil
        }
    }

    package var data: Data? {
        switch self {
        case .data(let data): data
        case .text(let text): Data(text.utf8)
        default: nil
        }
    }

    package var date: Date? { if case .date(let date) = self { date } else { nil } }

    package var accessControl: (accessibility: String, flags: KeychainAccessControl)? {
        if case .accessControl(let accessibility, let flags) = self { (accessibility, flags) } else { nil }
    }

    package var int: Int64? {
        switch self {
        case .int(let int): int
        case .bool(let bool): bool ? 1 : 0
        default: nil
        }
    }
}

extension KeychainValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The kind of value, not the value.
    public var description: String {
        switch self {
        case .text: "text"
        case .data(let data): "\(data.count) bytes"
        case .int: "number"
        case .bool: "boolean"
        case .date: "date"
        case .accessControl: "access control"
        }
    }

    /// Same as ``description``.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from showing the value.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
