import LockboxCore

extension SealedBackend: CustomStringConvertible, CustomReflectable {
    /// The type's name. Does not show any keys.
    public var description: String { "\(Self.self)" }

    /// Keeps `dump(_:)` from showing the keys.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
