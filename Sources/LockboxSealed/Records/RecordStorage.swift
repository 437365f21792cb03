import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Where a ``SealedBackend`` keeps its records: named byte strings, sealed already, of which the storage
/// understands nothing.
///
/// Records stand in scopes, one for each prefix, or outside any scope (the keybag). Names are short ASCII.
///
/// 1. **A change of a record is atomic and durable.** When it has returned, it survives a power cut; when it throws,
///    the record is as it was, or as it was to be and not durable yet.
/// 2. **Absent is nil or an empty list**, also where nothing was ever stored; a storage that cannot be read
///    throws. Only ``withLock(on:_:)`` and the changes inside it create anything.
/// 3. **Locks exclude each other** for the same scope, between threads and between processes. Changes are made under the
///    lock of their scope. Looking up one record waits for nobody.
/// 4. **Errors are ``LockboxError``s**, and none contains what was stored.
public protocol RecordStorage: Sendable {
    /// Hands a copy of the record to `body`, which may write to it.
    ///
    /// - Parameters:
    ///   - record: Which one.
    ///   - limit: At most as many bytes are read, from the beginning.
    ///   - maximum: A longer record is ``LockboxError/corrupt(record:reason:)``.
    ///   - body: Gets the bytes, for as long as it runs. What it throws is thrown on.
    /// - Returns: false, without calling `body`, if there is no such record.
    /// - Throws: ``LockboxError`` if the record cannot be read.
    func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (UnsafeMutableRawBufferPointer) throws -> Void
    ) throws -> Bool

    /// Stores a record, in place of the one of that name, if there is one.
    ///
    /// - Parameters:
    ///   - record: Which one.
    ///   - bytes: What it is to hold.
    /// - Throws: ``LockboxError``; the old record is there still, or the new one is not durable yet.
    func replace(_ record: RecordName, _ bytes: [UInt8]) throws

    /// Removes those of the named records that are there. When it has returned, none of them comes back, also if it was
    /// another process that removed it.
    ///
    /// - Parameters:
    ///   - names: The names of the records. If there are none, earlier removals are made durable.
    ///   - scope: The scope that they stand in; nil for records outside any.
    /// - Throws: ``LockboxError``; some may have been removed.
    func remove(_ names: [String], scope: String?) throws

    /// Whether there is such a record.
    ///
    /// - Parameter record: Which one. It need not be readable.
    /// - Throws: ``LockboxError`` if that cannot be found out.
    func exists(_ record: RecordName) throws -> Bool

    /// Hands the name of each of the scope's records to `body`, in no order. A record that is there all the time is among
    /// them, also if others replace it meanwhile. May wait for a writer that is at work, and never for one that was stopped.
    ///
    /// - Parameters:
    ///   - scope: Need not be there.
    ///   - body: Is called with one name after the other. What it throws is thrown on.
    /// - Throws: ``LockboxError`` if the scope cannot be read.
    func forEachName(in scope: String, _ body: (String) throws -> Void) throws

    /// Every scope that was ever written to.
    ///
    /// - Throws: ``LockboxError`` if they cannot be read.
    func scopes() throws -> [String]

    /// Runs `body` while nobody else holds this lock. Who waits gets it in turn, and gives up only if one and the same holder
    /// keeps it too long.
    ///
    /// - Parameters:
    ///   - scope: The scope to lock; nil locks the records outside any.
    ///   - body: What is to be done meanwhile. It may take the lock of the records outside any scope as well.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws; ``LockboxError`` if the lock cannot be had.
    func withLock<Result>(on scope: String?, _ body: () throws -> Result) throws -> Result

    /// A value that is another one whenever the record holds other bytes, and never comes back; nil if there is no such
    /// record. Times and numbers that a system gives again will not do.
    ///
    /// - Parameters:
    ///   - record: Which one.
    ///   - maximum: A longer record is ``LockboxError/corrupt(record:reason:)``.
    /// - Throws: ``LockboxError`` if it cannot be read.
    func revision(of record: RecordName, maximum: Int) throws -> RecordRevision?

    /// What is in the storage beside records and scopes, and what of its own is not safe to use. Looks, and changes
    /// nothing. By default nothing.
    ///
    /// - Throws: ``LockboxError`` if the storage cannot be read at all.
    func strays() throws -> [VerifyReport.Finding]

    /// What to call the record in an error: its path, or its like.
    ///
    /// - Parameter record: Which one. It need not be there.
    func location(of record: RecordName) -> String
}

extension RecordStorage {
    /// Nothing. Does not throw.
    public func strays() throws -> [VerifyReport.Finding] { [] }
}

extension RecordStorage {
    /// Runs `body` under the lock, and without it where this process may not write: then nobody does, or not by its leave.
    func withLockIfAllowed<Result>(on scope: String?, _ body: () throws -> Result) throws -> Result {
        do { return try withLock(on: scope, body) } catch let error as LockboxError where error.isRefusal {
            return try body()
        }
    }
}

extension LockboxError {
    /// Whether this process may not take the lock.
    var isRefusal: Bool {
        guard case .storageFailure(_, _, let code) = self else { return false }
        return [EROFS, EACCES, EPERM].contains(code)
    }

    /// Whether another has kept the lock too long.
    var isHeldLock: Bool {
        guard case .storageFailure("flock", _, EWOULDBLOCK) = self else { return false }
        return true
    }
}

/// The name of a record.
public struct RecordName: Sendable, Hashable {
    /// The scope it stands in, if any.
    public let scope: String?

    /// Its name there.
    public let name: String

    /// Any name.
    ///
    /// - Parameters:
    ///   - scope: The scope that the record stands in; nil, none.
    ///   - name: Its name there: short ASCII.
    public init(scope: String? = nil, name: String) {
        self.scope = scope
        self.name = name
    }
}

/// Tells one version of a record from another.
public struct RecordRevision: Sendable, Hashable {
    private let parts: [UInt64]

    /// Of numbers that never come together again.
    ///
    /// - Parameter parts: Two revisions with the same numbers are one.
    public init(_ parts: UInt64...) { self.parts = parts }

    /// Of the record's bytes. Keybags and items are sealed with random nonces: no two are equal.
    ///
    /// - Parameter record: All of it.
    public init(of record: UnsafeMutableRawBufferPointer) {
        var parts = [UInt64](repeating: 0, count: 4)
        parts.withUnsafeMutableBytes { Sodium.hash(UnsafeRawBufferPointer(record), into: $0) }
        self.parts = parts
    }
}
