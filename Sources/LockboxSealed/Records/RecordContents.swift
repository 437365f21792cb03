import LockboxPlatform

/// The contents of a record while it is being read. Valid only inside the closure that receives them.
public struct RecordContents {
    /// A copy of the record's first bytes, which may be overwritten.
    public let bytes: UnsafeMutableRawBufferPointer

    private let length: Int
    private let stated: RecordRevision?

    /// Creates contents with a revision that the storage keeps.
    ///
    /// - Parameters:
    ///   - bytes: A copy of the record's first bytes.
    ///   - revision: The record's revision.
    public init(bytes: UnsafeMutableRawBufferPointer, revision: RecordRevision) {
        self.bytes = bytes
        length = bytes.count
        stated = revision
    }

    /// Creates contents whose revision is computed from the bytes: all of them, or at least
    /// ``RecordRevision/prefixLength``.
    init(bytes: UnsafeMutableRawBufferPointer, length: Int) {
        self.bytes = bytes
        self.length = length
        stated = nil
    }

    /// The record's revision. Read it before you overwrite the bytes.
    public var revision: RecordRevision {
        stated ?? RecordRevision(of: UnsafeRawBufferPointer(bytes), length: length)
    }
}
