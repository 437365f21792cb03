import LockboxCore

extension Migration: CustomStringConvertible, CustomReflectable {
    /// The migration's name and the old keys.
    public var description: String {
        "Migration(\(name.map { String(reflecting: $0) } ?? "unnamed"), \(items.map(\.key)))"
    }

    /// Keeps `dump(_:)` from showing the source.
    public var customMirror: Mirror {
        Mirror(self, children: ["name": name as Any, "items": items, "keepsOldItems": keepsOldItems])
    }
}

extension Migration.Item: CustomStringConvertible, CustomReflectable {
    /// The old key, the new key and the value's type.
    public var description: String {
        "Item(\(String(reflecting: key)), to: \(String(reflecting: newKey)), \(typeName))"
    }

    /// The same as ``description``, and the accessibility class.
    public var customMirror: Mirror {
        let children: KeyValuePairs<String, Any> = [
            "key": key, "newKey": newKey, "accessibility": accessibility as Any, "type": typeName,
        ]
        return Mirror(self, children: children)
    }
}

extension MigrationSource: CustomStringConvertible, CustomReflectable {
    /// The type's name. Does not show the source.
    public var description: String { "MigrationSource" }

    /// Keeps `dump(_:)` from showing the source.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
