import LockboxCore

/// A storage that can set a record aside, readable or not, and keep its bytes.
public protocol QuarantiningStorage: RecordStorage {
    /// Sets a record aside. Afterwards it is absent.
    ///
    /// - Parameter record: The record's name.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: ``LockboxError/missing(record:)`` if the record does not exist, or another ``LockboxError`` if
    ///   it cannot be set aside.
    func quarantine(_ record: RecordName) throws -> String

    /// Sets a record aside during a turn of the caller.
    ///
    /// The default implementation releases the turn first.
    ///
    /// - Parameters:
    ///   - record: The record's name.
    ///   - turn: A turn from ``RecordStorage/takeTurn(in:)`` for the record's namespace. The caller keeps it.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: Any error of ``quarantine(_:)``.
    func quarantine(_ record: RecordName, turn: (any CommitTurn)?) throws -> String
}

extension QuarantiningStorage {
    /// Releases the turn first.
    public func quarantine(_ record: RecordName, turn: (any CommitTurn)?) throws -> String {
        turn?.release()
        return try quarantine(record)
    }
}
