import Foundation

import Lockbox
@testable import LockboxCore
@testable import LockboxSealed

/// In memory, and wrong in one way.
struct DefectiveStorage: NotifyingStorage, LockingStorage {
    enum Defect: CaseIterable {
        case inventsRecords, losesLastByte, hasNoRoom, ignoresLimit, sharesItsBytes, keepsOldBytes,
            neverRemoves
        case ignoresExpectations, ignoresOtherNamespaces, changesBeforeItCompares, dropsSecondChange
        case repeatsRevisions, mixesNamespaces, ignoresMaximum, swallowsErrors, lockStopsNobody
        case comparesBeforeTheLock, tearsRecords, listsShortly, sharesOneMomentOnly, waitsForItself
        case reportsNoRecords, reportsNoRemovals, reportsOneOfACommit, reportsOtherNamespaces
        case reportsBeforeTheCommit, neverStopsReporting, waitsForItsReport
    }

    final class State: Sendable {
        let wrapped = InMemoryStorage()
        let overwritten = Protected<[RecordName: [UInt8]]>([:])
        let torn = Protected<[RecordName: Int]>([:])
        let isTornSeen = Protected(false)
        let lists = Protected(0)
        let early = Subscribers<String, Result<RecordNotice, any Error>>()
        let lock = Lock()
    }

    private let state = State()
    private let defect: Defect

    init(_ defect: Defect) { self.defect = defect }

    private func mapped(_ record: RecordName) -> RecordName {
        defect == .mixesNamespaces ? RecordName(namespace: "all", name: record.name) : record
    }

    var limits: StorageLimits {
        StorageLimits(
            maximumLength: .max,
            maximumChanges: defect == .hasNoRoom ? 1 : 1000,
            isTransactional: true
        )
    }

    func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool {
        if defect == .waitsForItself { state.lock.withLock { state.lock.withLock {} } }
        if defect == .inventsRecords, record.name == "missing" { return true }
        let real = mapped(record)
        return try state.wrapped.read(
            real,
            upTo: limit,
            maximum: defect == .ignoresMaximum ? .max : maximum
        ) { contents in
            var bytes = state.overwritten.withLock { $0[real] } ?? Array(contents.bytes)
            if defect == .losesLastByte, bytes.count > 65_536 { bytes.removeLast() }
            if defect == .ignoresLimit { bytes.removeLast(max(0, bytes.count - max(limit, 1) + 1)) }
            if defect == .tearsRecords, let torn = state.torn.withLock({ $0[real] }), torn < bytes.count {
                state.isTornSeen.withLock { $0 = true }
                bytes.removeLast(bytes.count - torn)
            }
            let revision = defect == .repeatsRevisions ? RecordRevision(1) : contents.revision
            let copied = try bytes.withUnsafeMutableBytes { buffer in
                do { try body(RecordContents(bytes: buffer, revision: revision)) } catch {
                    if defect != .swallowsErrors { throw error }
                }
                return Array(buffer)
            }
            if defect == .sharesItsBytes { state.overwritten.withLock { $0[real] = copied } }
        }
    }

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        if defect == .sharesOneMomentOnly {
            var found: [RecordName: Record] = [:]
            for record in records {
                found.merge(try state.wrapped.read([record], maximum: maximum)) { $1 }
                usleep(100)
            }
            return found
        }
        let found = try state.wrapped.read(records.map(mapped), maximum: maximum)
        return Dictionary(records.compactMap { name in found[mapped(name)].map { (name, $0) } }) { $1 }
    }

    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws {
        let number = state.lists.withLock { number in
            number += 1
            return number
        }
        var isFirst = defect == .listsShortly && number > 5
        let real = defect == .mixesNamespaces ? "all" : namespace
        try state.wrapped.forEachName(in: real, waitingForCommits: waitingForCommits) { name in
            if !isFirst { try body(name) }
            isFirst = false
        }
    }

    func namespaces() -> [String] { state.wrapped.namespaces() }

    func lock(_ namespace: String?) throws -> any StorageLock {
        final class Useless: StorageLock { func release() {} }
        if defect == .lockStopsNobody { return Useless() }
        throw LockboxError.notSupported(operation: "locks")
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        lock: inout (any StorageLock)?
    ) throws -> CommitOutcome {
        try commit(changes, expecting: expecting)
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) throws -> CommitOutcome {
        var (changes, expecting) = (changes.map(mapped), expecting)
        switch defect {
        case .neverRemoves:
            changes.removeAll { if case .remove = $0 { true } else { false } }
        case .ignoresExpectations: expecting = [:]
        case .ignoresOtherNamespaces:
            expecting = expecting.filter { $0.key.namespace == changes.first?.record.namespace }
        case .changesBeforeItCompares:
            _ = state.wrapped.commit([changes[0]], expecting: [:])
        case .dropsSecondChange where changes.count > 1: changes.remove(at: 1)
        case .keepsOldBytes: changes = changes.filter { isNew($0.record) || !isPut($0) }
        case .comparesBeforeTheLock: return try commitLate(changes, expecting)
        case .tearsRecords: tear(changes)
        case .reportsBeforeTheCommit:
            for record in changes.map(\.record) {
                state.early.report(.success(.records([record.name])), to: record.namespace ?? "")
            }
        default: break
        }
        defer { state.torn.withLock { $0 = [:] } }
        return state.wrapped.commit(changes, expecting: expecting)
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

    private func mapped(_ change: RecordChange) -> RecordChange {
        switch change {
        case .put(let record, let bytes): .put(mapped(record), bytes)
        case .remove(let record): .remove(mapped(record))
        }
    }

    private func isNew(_ record: RecordName) -> Bool {
        (try? state.wrapped.read([record], maximum: .max))?.isEmpty ?? true
    }

    private func isPut(_ change: RecordChange) -> Bool { if case .put = change { true } else { false } }

    private func commitLate(_ changes: [RecordChange], _ expecting: [RecordName: RecordRevision]) throws
        -> CommitOutcome
    {
        for (record, revision) in expecting
        where try state.wrapped.revision(of: mapped(record), maximum: .max) != revision {
            return .conflict
        }
        usleep(100)
        return state.wrapped.commit(changes, expecting: [:])
    }

    private func tear(_ changes: [RecordChange]) {
        for case .put(let record, let bytes) in changes where bytes.count > 1000 {
            state.torn.withLock { $0[record] = bytes.count / 2 }
            // Until somebody has read it, if somebody does.
            for _ in 0..<50 where !state.isTornSeen.withLock({ $0 }) { usleep(1000) }
            state.isTornSeen.withLock { $0 = false }
        }
    }

    func location(of record: RecordName) -> String { state.wrapped.location(of: record) }
}
