extension FileStorage: CustomStringConvertible, CustomReflectable {
    /// The store's folder.
    public var description: String { "FileStorage(\(directory))" }

    /// The store's folder.
    public var customMirror: Mirror { Mirror(self, children: ["directory": directory]) }
}
