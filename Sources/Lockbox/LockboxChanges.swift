public import LockboxCore

/// The changes that a loop has not seen yet. Each is reported once, however often it was made.
struct PendingChanges: Sendable {
    /// More different changes become ``LockboxChange/everything``.
    static let maximum = 10_000

    private let changes = Protected<Set<LockboxChange>>([])

    func add(_ change: LockboxChange) {
        changes.withLock { changes in
            if changes.contains(.everything) { return }
            changes.insert(change)
            if change == .everything || changes.count > Self.maximum { changes = [.everything] }
        }
    }

    func next() -> LockboxChange? { changes.withLock { $0.popFirst() } }
}

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
    /// - Returns: A sequence for one loop. More than 10,000 different changes that it has not read become
    ///   ``LockboxChange/everything``.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if the backend or the system cannot report
    ///   changes; ``LockboxError/storageFailure(operation:path:errno:explanation:)`` with `EMFILE` or `ENOSPC` if
    ///   the user has too many inotify instances or watches.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func changes() throws -> AsyncThrowingStream<LockboxChange, any Error> {
        let pending = PendingChanges()
        let (signals, signal) = AsyncThrowingStream<Void, any Error>.makeStream(
            bufferingPolicy: .bufferingNewest(1)
        )
        let cancel = try backend.subscribe(prefix: keyPrefix) { change in
            switch change {
            case .success(let change):
                pending.add(change)
                signal.yield()
            case .failure(let error): signal.finish(throwing: error)
            }
        }
        signal.onTermination = { _ in cancel() }
        return AsyncThrowingStream {
            var iterator = signals.makeAsyncIterator()
            while true {
                // In a canceled task, only this wait ends the stream, and with it the subscription.
                if !Task.isCancelled, let change = pending.next() { return change }
                guard try await iterator.next() != nil else { return nil }
            }
        }
    }
}
