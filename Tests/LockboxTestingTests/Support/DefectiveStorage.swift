import Foundation
import Synchronization

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// In memory, and wrong in one way, or right without a defect.
struct DefectiveStorage: LockingStorage, PagingStorage, WatchingStorage, InspectedStorage {
    final class State: Sendable {
        let wrapped = InMemoryStorage()
        let locks = Locks()
        let overwritten = Protected<[RecordName: [UInt8]]>([:])
        let torn = Protected<[RecordName: Int]>([:])
        let isTornSeen = Protected(false)
        let lists = Protected(0)
        let early = Subscribers<String, Result<RecordNotice, any Error>>()
        let lock = Lock()
        /// A second `withLock` of it on a thread ends the process.
        let mutex = Mutex(())
    }

    let state: State
    let defect: Defect?

    init(_ defect: Defect?, _ state: State = State()) {
        self.defect = defect
        self.state = state
    }

    /// Like after a restart.
    func reopened() throws -> DefectiveStorage {
        let new = State()
        switch defect {
        case .forgetsAtARestart: return DefectiveStorage(defect, new)
        case .countsAnewAfterARestart:
            for namespace in state.wrapped.namespaces() {
                for (name, record) in try records(in: namespace) {
                    _ = new.wrapped.commit([.put(name, record.bytes)], expecting: [:])
                }
            }
            return DefectiveStorage(defect, new)
        default: return DefectiveStorage(defect, state)
        }
    }

    func records(in namespace: String) throws -> [RecordName: Record] {
        var names: [RecordName] = []
        state.wrapped.forEachName(in: namespace, waitingForCommits: false) {
            names.append(RecordName(namespace: namespace, name: $0))
        }
        return try state.wrapped.read(names, maximum: .max)
    }

    func mapped(_ record: RecordName) -> RecordName {
        defect == .mixesNamespaces ? RecordName(namespace: "all", name: record.name) : record
    }

    var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: 1 << 30,
            maximumChanges: defect == .hasNoRoom ? 1 : 1000,
            maximumCommitLength: defect == .hasLessRoomForCommits ? 1 << 29 : 1 << 30,
            isTransactional: true,
            isOnThisDevice: true
        )
    }

    func location(of record: RecordName) -> String {
        defect == .locatesByNameAlone ? record.name : state.wrapped.location(of: record)
    }

    // MARK: Reading

    func read(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws {
        switch defect {
        case .waitsForItself: state.lock.withLock { state.lock.withLock {} }
        case .listsPagesUnderItsLock, .reportsUnderItsLock: state.mutex.withLock { _ in }
        case .looksUpBehindLocks: lock([record.namespace]).release()
        case .inventsRecords where record.name == "missing":
            var bytes = [UInt8(0)]
            try bytes.withUnsafeMutableBytes {
                try body(RecordContents(bytes: $0, revision: RecordRevision(1)))
            }
        default: break
        }
        let real = mapped(record)
        try state.wrapped.read(
            real,
            atLeast: minimum,
            maximum: defect == .ignoresMaximum ? .max : maximum
        ) { contents in
            var bytes = state.overwritten.withLock { $0[real] } ?? Array(contents.bytes)
            if defect == .losesLastByte, bytes.count > 65_536 { bytes.removeLast() }
            if defect == .ignoresLimit { bytes.removeLast(max(0, bytes.count - max(minimum, 1) + 1)) }
            if defect == .tearsRecords, let torn = state.torn.withLock({ $0[real] }), torn < bytes.count {
                state.isTornSeen.withLock { $0 = true }
                bytes.removeLast(bytes.count - torn)
            }
            let revision = defect == .repeatsRevisions ? RecordRevision(1) : contents.revision
            try bytes.withUnsafeMutableBytes { buffer in
                do { try body(RecordContents(bytes: buffer, revision: revision)) } catch {
                    if defect != .swallowsErrors { throw error }
                }
            }
            if defect == .sharesItsBytes { state.overwritten.withLock { $0[real] = bytes } }
        }
    }

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        if defect == .sharesOneMomentOnly {
            var found: [RecordName: Record] = [:]
            for record in records {
                found.merge(try state.wrapped.read([record], maximum: maximum)) { $1 }
                usleep(2000)
            }
            return found
        }
        if defect == .namesNoRecord, (try? state.wrapped.read(records, maximum: maximum)) == nil {
            throw LockboxError.corrupt(record: "a record", reason: "it is too long")
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

    /// Seven at a time, with their contents.
    func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        let all = try records(in: namespace).map { name, record in
            let isLong = record.bytes.count > maximum && defect != .givesTooLong
            return (name: name.name, record: isLong ? nil : record)
        }
        for start in stride(from: 0, to: all.count, by: 7) {
            if defect == .dropsAPage, start == 7 { continue }
            var page = Array(all[start..<min(start + 7, all.count)])
            if defect == .repeatsARecord, start > 0 { page.append(all[0]) }
            if defect == .listsPagesUnderItsLock {
                try state.mutex.withLock { _ in try body(page) }
            } else {
                try body(page)
            }
        }
    }

    func namespaces() -> [String] { state.wrapped.namespaces() }

    // MARK: Committing

    /// Under the locks of the changed namespaces.
    func change(_ changes: [RecordChange], _ expecting: [RecordName: RecordRevision]) throws -> CommitOutcome
    {
        var (changes, expecting) = (changes.map(mapped), expecting)
        switch defect {
        case .neverRemoves:
            changes.removeAll { if case .remove = $0 { true } else { false } }
        case .ignoresExpectations: expecting = [:]
        case .ignoresOtherNamespaces: expecting = expecting.filter { isInside($0.key, changes) }
        case .comparesFirstExpectation:
            let first = expecting.keys.min { ($0.namespace ?? "", $0.name) < ($1.namespace ?? "", $1.name) }
            expecting = expecting.filter { $0.key == first }
        case .changesBeforeItCompares:
            _ = state.wrapped.commit([changes[0]], expecting: [:])
        case .dropsSecondChange where changes.count > 1: changes.remove(at: 1)
        case .keepsOldBytes: changes = changes.filter { isNew($0.record) || !isPut($0) }
        case .listsBesideCommits:
            guard try hold(expecting.filter { !isInside($0.key, changes) }) else { return .conflict }
            usleep(2000)
            expecting = expecting.filter { isInside($0.key, changes) }
        case .comparesOthersBeforeTheLock:
            let changed = Set(changes.map(\.record))
            guard try hold(expecting.filter { !changed.contains($0.key) }) else { return .conflict }
            usleep(1000)
            expecting = expecting.filter { changed.contains($0.key) }
        case .comparesBeforeTheLock:
            guard try hold(expecting) else { return .conflict }
            usleep(1000)
            expecting = [:]
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

    private func isInside(_ record: RecordName, _ changes: [RecordChange]) -> Bool {
        changes.contains { $0.record.namespace == record.namespace }
    }

    private func hold(_ expecting: [RecordName: RecordRevision]) throws -> Bool {
        try expecting.allSatisfy { record, revision in
            try state.wrapped.revision(of: mapped(record), maximum: .max) == revision
        }
    }

    private func mapped(_ change: RecordChange) -> RecordChange {
        switch change {
        case .put(let record, let bytes): .put(mapped(record), bytes)
        case .remove(let record): .remove(mapped(record))
        }
    }

    func isNew(_ record: RecordName) -> Bool {
        (try? state.wrapped.read([record], maximum: .max))?.isEmpty ?? true
    }

    private func isPut(_ change: RecordChange) -> Bool { if case .put = change { true } else { false } }

    private func tear(_ changes: [RecordChange]) {
        for case .put(let record, let bytes) in changes where bytes.count > 1000 {
            state.torn.withLock { $0[record] = bytes.count / 2 }
            // Until somebody has read it, if somebody does.
            for _ in 0..<50 where !state.isTornSeen.withLock({ $0 }) { usleep(1000) }
            state.isTornSeen.withLock { $0 = false }
        }
    }
}
