/// The changes of a lockbox's items since the sequence was created: see `changes()`.
///
/// Changes that the loop has not seen yet are merged: each is reported once, however often it was made. For one
/// loop only.
public struct LockboxChanges: AsyncSequence, Sendable {
    /// The maximum number of different changes that are kept for the loop. More become
    /// ``LockboxChange/everything``.
    public static let maximumPending = 10_000

    private let pending: Protected<Set<LockboxChange>>
    private let signals: AsyncThrowingStream<Void, any Error>

    init(_ backend: any NotifyingBackend, prefix: String) throws {
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

extension LockboxChanges: CustomStringConvertible, CustomReflectable {
    /// The type only.
    public var description: String { "LockboxChanges()" }

    /// The type only.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension LockboxChanges.Iterator: CustomStringConvertible, CustomReflectable {
    /// The type only.
    public var description: String { "LockboxChanges.Iterator()" }

    /// The type only.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
