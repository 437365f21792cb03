// The record of a device key is the key: its bytes are not shown.

extension Record: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The size, not the bytes.
    public var description: String { "Record(\(bytes.count) bytes)" }

    /// As ``description``.
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

    /// As ``description``.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from showing the bytes.
    public var customMirror: Mirror { Mirror(self, children: ["record": record]) }
}

extension InMemoryStorage: CustomStringConvertible, CustomReflectable {
    /// The name of the type.
    public var description: String { "InMemoryStorage" }

    /// Nothing of the records.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
