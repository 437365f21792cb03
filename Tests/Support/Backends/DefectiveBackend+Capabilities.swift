import Synchronization

import Lockbox
@testable import LockboxCore

/// Optional: not every store can do it.
extension DefectiveBackend {
    var lockState: LockState { defect == .misstatesItsLock ? .beforeFirstUnlock : .unprotected }

    func location(of key: ItemKey) -> String? { record(of: key) }

    func synchronize(prefix: String) throws {
        guard defect == .synchronizesOnlyItems, items(prefix, at: nil).intact.isEmpty else { return }
        throw LockboxError.missing(record: .other(prefix))
    }

    func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport {
        var report = VerifyReport()
        for prefix in wrapped.prefixes() where defect != .verifiesNothing {
            let (intact, damaged) = items(prefix, at: nil)
            report.intactCount += intact.count
            for key in damaged where defect != .verifiesDamaged {
                report.findings.append(StoreFinding(error(of: key), location: record(of: key)))
            }
        }
        return report
    }

    /// Nil if it can be read by now.
    private func damagedItem(_ record: String) throws -> ItemKey? {
        if !record.hasPrefix("record"), defect != .removesAnyRecord {
            throw LockboxError.invalidKey(reason: "no item has this record")
        }
        let all = wrapped.prefixes().flatMap { wrapped.attributes(prefix: $0, now: nil).keys }
        return all.first { self.record(of: $0) == record && (isDamaged($0) || defect == .removesByOldRecord) }
    }

    func remove(record: String) throws -> Bool {
        guard let key = try damagedItem(record) else { return false }
        forget(key)
        return true
    }

    func quarantine(record: String) throws -> String {
        guard let key = try damagedItem(record) else { throw LockboxError.missing(record: .record(record)) }
        if defect != .quarantinesNothing { forget(key) }
        return "set aside"
    }

    func subscribe(prefix: String, _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void)
        -> @Sendable () -> Void
    {
        if defect == .reportsNothing { return {} }
        let cancels = (defect == .reportsOtherPrefixes ? [prefix, "\(prefix).other"] : [prefix]).map {
            wrapped.subscribe(prefix: $0) { [state, defect] change in
                if defect == .reportsNoRemovals, isRemoval(change, prefix) { return }
                if defect == .reportsUnderItsLock {
                    state.mutex.withLock { _ in report(change) }
                } else {
                    report(change)
                }
            }
        }
        return { [state, defect] in
            if defect == .reportsUnderItsLock { state.mutex.withLock { _ in } }
            if defect != .neverStopsReporting { cancels.forEach { $0() } }
        }
    }

    private func isRemoval(_ change: Result<LockboxChange, any Error>, _ prefix: String) -> Bool {
        guard case .success(.item(let key)) = change, let key = try? ItemKey(prefix: prefix, key: key) else {
            return false
        }
        return wrapped.item(for: key, now: nil) == nil
    }
}
