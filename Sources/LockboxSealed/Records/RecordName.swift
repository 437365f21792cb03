/// The name of a record.
public struct RecordName: Sendable, Hashable {
    /// The namespace that it stands in, if any.
    public let namespace: String?

    /// Its name there.
    public let name: String

    /// Any name.
    ///
    /// - Parameters:
    ///   - namespace: The namespace that the record stands in; nil, none.
    ///   - name: Its name there: short ASCII.
    public init(namespace: String? = nil, name: String) {
        self.namespace = namespace
        self.name = name
    }
}
