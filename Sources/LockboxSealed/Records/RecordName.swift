/// The name of a record.
public struct RecordName: Sendable, Hashable {
    /// The record's namespace, or `nil` if it is outside any namespace.
    public let namespace: String?

    /// The record's name in its namespace.
    public let name: String

    /// Creates a name.
    ///
    /// - Parameters:
    ///   - namespace: The record's namespace, or `nil` for none.
    ///   - name: The record's name in its namespace: short ASCII.
    public init(namespace: String? = nil, name: String) {
        self.namespace = namespace
        self.name = name
    }

    /// Hashes the name only: hardly any two namespaces have one in common.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
