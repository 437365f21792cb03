import LockboxPlatform

/// A complete record and its revision.
public struct Record: Sendable, Hashable {
    /// The record's bytes.
    public let bytes: [UInt8]

    /// The record's revision.
    public let revision: RecordRevision

    /// Creates a record.
    ///
    /// - Parameters:
    ///   - bytes: The record's bytes.
    ///   - revision: The record's revision.
    public init(bytes: [UInt8], revision: RecordRevision) {
        self.bytes = bytes
        self.revision = revision
    }
}
