/// Whom to notify of changes that are made in this process.
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
