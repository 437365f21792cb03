extension Lockbox: CustomStringConvertible, CustomReflectable {
    /// The key prefix and the backend's type.
    public var description: String {
        "Lockbox(keyPrefix: \(String(reflecting: keyPrefix)), backend: \(type(of: backend)))"
    }

    /// Keeps `dump(_:)` from showing the backend, the coder and the clock.
    public var customMirror: Mirror {
        Mirror(self, children: ["keyPrefix": keyPrefix, "backend": "\(type(of: backend))"])
    }
}
