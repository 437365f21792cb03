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
    ///   - name: The record's name in its namespace: ASCII, at most 61 characters. Lockbox uses lowercase letters,
    ///     digits and hyphens. The conformance suite also uses spaces.
    public init(namespace: String? = nil, name: String) {
        self.namespace = namespace
        self.name = name
    }

    /// Hashes the name only: hardly any two namespaces have one in common.
    public func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
