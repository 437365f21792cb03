import LockboxCore

extension FailingBackend: CustomStringConvertible, CustomReflectable {
    /// The type of the backend behind it. Shows no items.
    public var description: String { "FailingBackend(\(type(of: wrapped)))" }

    /// Keeps `dump(_:)` from walking into the backend behind it.
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
