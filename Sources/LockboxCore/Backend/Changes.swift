/// A change of a lockbox's items, as `changes()` reports it.
///
/// Minor versions may add cases. Treat one that you do not know as ``everything``.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum LockboxChange: Sendable, Hashable {
    /// The item with this key was written or removed.
    case item(String)

    /// An item was changed whose key cannot be read: it is damaged, or a damaged one was removed.
    case unknownItem

    /// Anything may have changed. There were more changes than the system remembers, or the store was moved or
    /// replaced.
    case everything
}

/// The subscribers to changes that are made in this process.
package final class Subscribers<Subject: Hashable & Sendable, Notice: Sendable>: Sendable {
    private struct State {
        var next = 0
        var reports: [Subject: [Int: @Sendable (Notice) -> Void]] = [:]
    }

    private let state = Protected(State())

    package init() {}

    /// Returns a closure that ends the subscription.
    package func add(_ subject: Subject, _ report: @escaping @Sendable (Notice) -> Void)
        -> @Sendable () -> Void
    {
        let number = state.withLock { state in
            state.next += 1
            state.reports[subject, default: [:]][state.next] = report
            return state.next
        }
        return { [weak self] in
            self?.state.withLock { $0.reports[subject]?[number] = nil }
        }
    }

    /// Reports outside the lock, so that a subscriber can do anything.
    package func report(_ notice: @autoclosure () -> Notice, to subject: Subject) {
        let reports = state.withLock { $0.reports[subject] ?? [:] }
        if reports.isEmpty { return }
        let notice = notice()
        for report in reports.values { report(notice) }
    }
}
