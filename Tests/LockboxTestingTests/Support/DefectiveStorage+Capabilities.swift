import Foundation
import Synchronization

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Optional: not every storage can do it.
extension DefectiveStorage {
    /// The namespaces that are locked.
    final class Locks: Sendable {
        private let held = Protected<Set<String?>>([])

        func take(_ namespaces: Set<String?>, outlivesItsOwner: Bool = false) -> Held {
            while !held.withLock({ held in
                guard held.isDisjoint(with: namespaces) else { return false }
                held.formUnion(namespaces)
                return true
            }) { usleep(200) }
            return Held(namespaces, self, outlivesItsOwner)
        }

        fileprivate func release(_ namespaces: Set<String?>) { held.withLock { $0.subtract(namespaces) } }
    }

    final class Held: StorageLock {
        private let namespaces: Protected<Set<String?>>
        private let locks: Locks
        private let outlivesItsOwner: Bool

        fileprivate init(_ namespaces: Set<String?>, _ locks: Locks, _ outlivesItsOwner: Bool) {
            self.namespaces = Protected(namespaces)
            self.locks = locks
            self.outlivesItsOwner = outlivesItsOwner
        }

        func release() {
            locks.release(
                namespaces.withLock { namespaces in
                    defer { namespaces = [] }
                    return namespaces
                }
            )
        }

        deinit { if !outlivesItsOwner { release() } }
    }

    func lock(_ namespace: String?) -> (any StorageLock)? {
        state.locks.take(
            defect == .lockStopsNobody ? [] : [namespace],
            outlivesItsOwner: defect == .lockOutlivesItsOwner
        )
    }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        var lock: (any StorageLock)?
        defer { lock?.release() }
        return try commit(changes, expecting: expecting, lock: &lock)
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        lock: inout (any StorageLock)?
    ) throws -> CommitOutcome {
        let isLocked = lock != nil || defect == .comparesBeforeTheLock
        let own = isLocked ? nil : state.locks.take(Set(changes.map(\.record.namespace)))
        let outcome = try change(changes, expecting)
        if case .conflict = outcome, defect != .keepsNoLockAfterAConflict {
            lock = lock ?? own
        } else {
            own?.release()
        }
        return outcome
    }

    func findings() throws -> [StoreFinding] {
        guard defect == .findsItsOwnRecords else { return [] }
        return try state.wrapped.namespaces().flatMap { try records(in: $0).keys }.map {
            StoreFinding(kind: .foreign, location: location(of: $0), reason: "it is not a record")
        }
    }

    func quarantine(_ record: RecordName, lock: (any StorageLock)?) throws -> String {
        lock?.release()
        if isNew(record), defect != .quarantinesWhatIsAbsent {
            throw LockboxError.missing(record: subject(of: record))
        }
        let own = state.locks.take([record.namespace])
        defer { own.release() }
        if defect != .quarantinesNothing { _ = try change([.remove(record)], [:]) }
        return "set aside"
    }

    func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) -> @Sendable () -> Void {
        switch defect {
        case .reportsNoRecords: return {}
        case .reportsBeforeTheCommit: return state.early.add(namespace, report)
        case .waitsForItsReport:
            let lock = state.lock
            let cancel = state.wrapped.subscribe(to: namespace) { notice in lock.withLock { report(notice) } }
            return { lock.withLock { cancel() } }
        case .reportsUnderItsLock:
            let cancel = state.wrapped.subscribe(to: namespace) { [state] notice in
                state.mutex.withLock { _ in report(notice) }
            }
            return { [state] in state.mutex.withLock { _ in cancel() } }
        default: break
        }
        let others = defect == .reportsOtherNamespaces ? ["other"] : []
        let cancels = ([namespace] + others).map { namespace in
            state.wrapped.subscribe(to: namespace) { notice in
                if !isLeftOut(notice, namespace) { report(notice) }
            }
        }
        return { [defect] in if defect != .neverStopsReporting { cancels.forEach { $0() } } }
    }

    private func isLeftOut(_ notice: Result<RecordNotice, any Error>, _ namespace: String) -> Bool {
        guard case .success(.records(let names)) = notice, let name = names.first else { return false }
        if defect == .reportsNoRemovals { return isNew(RecordName(namespace: namespace, name: name)) }
        return defect == .reportsOneOfACommit && name == "two of two"
    }
}
