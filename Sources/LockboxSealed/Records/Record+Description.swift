// A device key's record contains the key itself, so no bytes are shown.

extension Record: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The size, not the bytes.
    public var description: String { "Record(\(bytes.count) bytes)" }

    /// Same as ``description``.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from showing the bytes.
    public var customMirror: Mirror { Mirror(self, children: ["size": bytes.count]) }
}

extension RecordChange: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The record and the size, not the bytes.
    public var description: String {
        switch self {
        case .put(let record, let bytes): "put(\(record.name), \(bytes.count) bytes)"
        case .remove(let record): "remove(\(record.name))"
        }
    }

    /// Same as ``description``.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from showing the bytes.
    public var customMirror: Mirror { Mirror(self, children: ["record": record]) }
}

extension InMemoryStorage: CustomStringConvertible, CustomReflectable {
    /// The type's name.
    public var description: String { "InMemoryStorage" }

    /// Keeps `dump(_:)` from showing the records.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
