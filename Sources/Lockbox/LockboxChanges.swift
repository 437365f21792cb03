public import LockboxCore

/// The changes of a lockbox's items since the sequence was created: see `changes()`.
///
/// Changes that the loop has not seen yet are merged: each is reported once, however often it was made. For one
/// loop only.
public struct LockboxChanges: AsyncSequence, Sendable {
    /// The maximum number of different changes that are kept for the loop. More become
    /// ``LockboxChange/everything``.
    package static let maximumPending = 10_000

    private let pending: Protected<Set<LockboxChange>>
    private let signals: AsyncThrowingStream<Void, any Error>

    init(_ backend: any LockboxBackend, prefix: String) throws {
        let pending = Protected<Set<LockboxChange>>([])
        let (signals, signal) = AsyncThrowingStream<Void, any Error>.makeStream(
            bufferingPolicy: .bufferingNewest(1)
        )
        let cancel = try backend.subscribe(prefix: prefix) { change in
            switch change {
            case .success(let change):
                pending.withLock { Self.add(change, to: &$0) }
                signal.yield()
            case .failure(let error): signal.finish(throwing: error)
            }
        }
        signal.onTermination = { _ in cancel() }
        self.pending = pending
        self.signals = signals
    }

    private static func add(_ change: LockboxChange, to pending: inout Set<LockboxChange>) {
        if pending.contains(.everything) { return }
        pending.insert(change)
        if change == .everything || pending.count > maximumPending { pending = [.everything] }
    }

    /// Returns an iterator over the changes.
    public func makeAsyncIterator() -> Iterator {
        Iterator(pending: pending, signals: signals.makeAsyncIterator())
    }

    /// An iterator over the changes.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let pending: Protected<Set<LockboxChange>>
        fileprivate var signals: AsyncThrowingStream<Void, any Error>.AsyncIterator

        /// Waits for the next change.
        ///
        /// - Returns: The change, or `nil` if the task was canceled.
        /// - Throws: ``LockboxError`` if changes can no longer be observed.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> LockboxChange? {
            while true {
                // In a canceled task, only this wait ends the stream, and with it the subscription.
                if !Task.isCancelled, let change = pending.withLock({ $0.popFirst() }) { return change }
                guard try await signals.next(isolation: actor) != nil else { return nil }
            }
        }

        /// Waits for the next change.
        public mutating func next() async throws -> LockboxChange? { try await next(isolation: #isolation) }
    }
}

extension LockboxChanges: Undescribed {}

extension LockboxChanges.Iterator: Undescribed {}

extension Lockbox {
    /// Returns the changes that any thread or process makes to the items with this prefix from now on.
    ///
    /// ```swift
    /// func show(_ lockbox: Lockbox) async throws {
    ///     let changes = try await lockbox.async { try $0.changes() }
    ///     var token = try await lockbox.unarchiveObject(String.self, forKey: "token")
    ///     for try await change in changes where [.item("token"), .unknownItem, .everything].contains(change) {
    ///         token = try await lockbox.unarchiveObject(String.self, forKey: "token")
    ///         print(token ?? "signed out")
    ///     }
    /// }
    /// ```
    ///
    /// Subscribe before you read, so that you miss no change. This program's own changes are included. An item that
    /// expires is not a change, nor is one that is created and removed before it is noticed. Changes are merged until they
    /// are read, and their order is not kept.
    ///
    /// For a store in files, this works only on Linux, and only for changes that are made on this machine, not by
    /// another machine on a network file system. The subscription creates the store if there is none, reads the
    /// keys of all items, so that it can report the keys of removed items, and waits in a thread of its own.
    ///
    /// It ends when the task of the loop is canceled, or the sequence and its iterator are released.
    ///
    /// - Returns: A sequence for one loop.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if the backend or the system cannot report
    ///   changes; ``LockboxError/storageFailure(operation:path:errno:)`` with `EMFILE` or `ENOSPC` if
    ///   the user has too many inotify instances or watches.
    public func changes() throws -> LockboxChanges { try LockboxChanges(backend, prefix: keyPrefix) }
}
