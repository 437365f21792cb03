public import LockboxStore

/// A storage that passes its calls on to another one. Implement what it does in another way.
///
/// What only some storages can do is passed on if you say so: `struct MyStorage: ForwardingStorage, PagingStorage`. A commit under a
/// lock goes to the target directly.
@_spi(Extensions) public protocol ForwardingStorage: RecordStorage {
    /// The type of the other storage.
    associatedtype Target: RecordStorage

    /// The storage that calls are passed on to.
    var target: Target { get }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
@_spi(Extensions) extension ForwardingStorage {
    public var limits: StorageLimits { target.limits }

    public func read(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws { try target.read(record, atLeast: minimum, maximum: maximum, body) }

    public func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        try target.read(records, maximum: maximum)
    }

    public func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void)
        throws
    { try target.forEachName(in: namespace, waitingForCommits: waitingForCommits, body) }

    public func namespaces() throws -> [String] { try target.namespaces() }

    public func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws
        -> CommitOutcome
    { try target.commit(changes, expecting: expecting) }

    public func location(of record: RecordName) -> String { target.location(of: record) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
@_spi(Extensions) extension ForwardingStorage where Self: LockingStorage, Target: LockingStorage {
    public func lock(_ namespaces: Set<String?>) throws -> any StorageLock { try target.lock(namespaces) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
@_spi(Extensions) extension ForwardingStorage where Self: PagingStorage, Target: PagingStorage {
    public func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        try target.forEachPage(of: namespace, maximum: maximum, waitingForCommits: waitingForCommits, body)
    }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
@_spi(Extensions) extension ForwardingStorage where Self: WatchingStorage, Target: WatchingStorage {
    public func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws -> @Sendable () -> Void { try target.subscribe(to: namespace, report) }
}
