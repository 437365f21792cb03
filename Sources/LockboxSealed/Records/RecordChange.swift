/// A change in a ``RecordStorage/commit(_:expecting:)``.
///
/// There will be no other cases before the next major version: a storage has to handle all of them.
public enum RecordChange: Sendable {
    /// Stores a record, replacing an existing one of that name.
    case put(RecordName, [UInt8])

    /// Removes a record. Does nothing if it does not exist.
    case remove(RecordName)

    /// The name of the changed record.
    public var record: RecordName {
        switch self {
        case .put(let record, _), .remove(let record): record
        }
    }
}
