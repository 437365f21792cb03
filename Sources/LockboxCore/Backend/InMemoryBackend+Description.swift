extension InMemoryBackend: CustomStringConvertible, CustomReflectable {
    /// The type's name. Does not show any items.
    public var description: String { "InMemoryBackend" }

    /// Keeps `dump(_:)` from showing the items.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
