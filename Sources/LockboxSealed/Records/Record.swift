import LockboxPlatform

/// A record as it was read.
public struct Record: Sendable, Hashable {
    /// All of its bytes.
    public let bytes: [UInt8]

    /// Tells this version of the record from all others.
    public let revision: RecordRevision

    /// A record of a storage.
    ///
    /// - Parameters:
    ///   - bytes: All of its bytes.
    ///   - revision: Tells this version of the record from all others.
    public init(bytes: [UInt8], revision: RecordRevision) {
        self.bytes = bytes
        self.revision = revision
    }
}

/// A record that is being read: valid only in the closure that it is given to.
public struct RecordContents {
    /// A copy of the record's bytes, from the beginning, which may be overwritten.
    public let bytes: UnsafeMutableRawBufferPointer

    private let length: Int
    private let stated: RecordRevision?

    /// Contents of a record whose revision the storage knows.
    ///
    /// - Parameters:
    ///   - bytes: A copy of the record's bytes, from the beginning.
    ///   - revision: Tells this version of the record from all others.
    public init(bytes: UnsafeMutableRawBufferPointer, revision: RecordRevision) {
        self.bytes = bytes
        length = bytes.count
        stated = revision
    }

    /// Contents whose revision is made of the bytes: at least the first ``RecordRevision/prefixLength``.
    init(bytes: UnsafeMutableRawBufferPointer, length: Int) {
        self.bytes = bytes
        self.length = length
        stated = nil
    }

    /// Tells this version of the record from all others. To be asked for before the bytes are overwritten.
    public var revision: RecordRevision {
        stated ?? RecordRevision(of: UnsafeRawBufferPointer(bytes), length: length)
    }
}
