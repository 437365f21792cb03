import LockboxCore

extension FailingBackend: CustomStringConvertible, CustomReflectable {
    /// The type's name and the type of the wrapped backend. Does not show any items.
    public var description: String { "FailingBackend(\(type(of: wrapped)))" }

    /// Keeps `dump(_:)` from showing the wrapped backend.
    public var customMirror: Mirror { Mirror(self, children: ["wrapped": "\(type(of: wrapped))"]) }
}

extension BackendConformance: CustomReflectable {
    /// The requirement, without its closure.
    public var customMirror: Mirror { Mirror(self, children: ["description": description]) }
}

extension StorageConformance: CustomReflectable {
    /// The requirement, without its closure.
    public var customMirror: Mirror { Mirror(self, children: ["description": description]) }
}
