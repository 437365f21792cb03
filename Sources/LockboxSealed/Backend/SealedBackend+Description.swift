import LockboxCore

extension SealedBackend: CustomStringConvertible, CustomReflectable {
    /// The type's name. Shows no keys.
    public var description: String { "\(Self.self)" }

    /// Keeps `dump(_:)` from walking into the keys.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
