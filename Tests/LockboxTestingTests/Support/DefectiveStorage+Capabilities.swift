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

        func take(_ namespaces: Set<String?>) {
            while !held.withLock({ held in
                guard held.isDisjoint(with: namespaces) else { return false }
                held.formUnion(namespaces)
                return true
            }) { usleep(200) }
        }

        func release(_ namespaces: Set<String?>) { held.withLock { $0.subtract(namespaces) } }
    }

    final class Held: QuarantiningLock {
        private let namespaces: Protected<Set<String?>>
        private let storage: DefectiveStorage

        fileprivate init(_ namespaces: Set<String?>, of storage: DefectiveStorage) {
            self.namespaces = Protected(namespaces)
            self.storage = storage
        }

        private func keepsOthersOut(of changed: [String?]) -> Bool {
            storage.defect == .lockStopsNobody || storage.defect == .commitsUnderALostLock
                || namespaces.withLock { $0.isSuperset(of: changed) }
        }

        func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws
            -> CommitOutcome
        {
            guard keepsOthersOut(of: changes.map(\.record.namespace)) else { return .conflict }
            return try storage.change(changes, expecting)
        }

        func quarantine(_ record: RecordName) throws -> String {
            guard keepsOthersOut(of: [record.namespace]) else {
                throw LockboxError.conflict(record: storage.location(of: record))
            }
            if storage.isNew(record), storage.defect != .quarantinesWhatIsAbsent {
                throw LockboxError.missing(record: storage.subject(of: record))
            }
            if storage.defect != .quarantinesNothing { _ = try storage.change([.remove(record)], [:]) }
            return "set aside"
        }

        func release() {
            storage.state.locks.release(
                namespaces.withLock { namespaces in
                    defer { namespaces = [] }
                    return namespaces
                }
            )
        }

        deinit { if storage.defect != .lockOutlivesItsOwner { release() } }
    }

    func lock(_ namespaces: Set<String?>) -> any StorageLock { take(namespaces) }

    private func take(_ namespaces: Set<String?>) -> Held {
        let namespaces = defect == .lockStopsNobody ? [] : namespaces
        state.locks.take(namespaces)
        return Held(namespaces, of: self)
    }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        let lock = defect == .comparesBeforeTheLock ? nil : take(Set(changes.map(\.record.namespace)))
        defer { lock?.release() }
        return try change(changes, expecting)
    }

    func findings() throws -> [StoreFinding] {
        guard defect == .findsItsOwnRecords else { return [] }
        return try state.wrapped.namespaces().flatMap { try records(in: $0).keys }.map {
            StoreFinding(kind: .foreign, location: location(of: $0), reason: "it is not a record")
        }
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
