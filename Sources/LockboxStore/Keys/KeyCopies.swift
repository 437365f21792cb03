import LockboxCore
import LockboxPlatform

extension RecordName {
    /// The second record with the same bytes. See ``KeyCopies``.
    var copy: RecordName { RecordName(namespace: namespace, name: "\(name)-copy") }
}

/// The copies of the keybag and the device key: second records with the same bytes, which are read where the first one is damaged or
/// missing.
///
/// A copy must not bring back keys that a change has taken away. So a change first removes the copies. ``KeybagLock`` replaces one of
/// the records only if there are none, and a copy is made only of a record that does not change meanwhile. A transactional storage has no
/// copies: it is a database, which looks after its files itself.
struct KeyCopies: Sendable {
    let storage: any RecordStorage

    private static let records = [RecordName.keybag, .deviceKey]

    var areKept: Bool { !storage.limits.isTransactional }

    /// Returns what a commit has to expect: also that there are no copies, if it replaces one of the records. One that restores a record
    /// from its copy names that.
    func expected(by changes: [RecordChange], _ expecting: [RecordName: RecordRevision]) -> [RecordName:
        RecordRevision]
    {
        let copies = Self.records.map(\.copy)
        guard areKept, changes.contains(where: { Self.records.contains($0.record) }),
            !copies.contains(where: { expecting[$0] != nil })
        else { return expecting }
        return expecting.merging(copies.map { ($0, .absent) }) { own, _ in own }
    }

    /// Removes the copies durably. Returns false if another process has replaced the keybag.
    func remove(expecting keybag: RecordRevision, _ lock: KeybagLock) throws -> Bool {
        guard areKept else { return true }
        let removals = Self.records.map { RecordChange.remove($0.copy) }
        return try isMade(lock.commit(removals, expecting: [.keybag: keybag]))
    }

    /// Makes the copies after a change, which is complete without them. If this fails, `verify` reports it, and the next change tries
    /// again.
    func make(of records: [RecordName], _ lock: KeybagLock) {
        guard areKept else { return }
        for record in records { _ = try? copy(record, to: record.copy, lock) }
    }

    /// Replaces damaged and missing records by their copies, from which the keybag was just opened, unless another process changes these.
    /// A damaged record is set aside: it may be another store's, and whole.
    func restore(_ damaged: [RecordName], _ lock: KeybagLock) throws {
        for record in damaged {
            if try storage.revision(of: record, maximum: .max) != .absent { _ = try lock.quarantine(record) }
            try copy(record.copy, to: record, lock)
        }
    }

    @discardableResult
    private func copy(_ source: RecordName, to target: RecordName, _ lock: KeybagLock) throws
        -> Bool
    {
        guard var found = try read(source) else { return false }
        defer { Sodium.wipe(&found.bytes) }
        let expecting = [source: found.revision, target: .absent]
        return try isMade(lock.commit([.put(target, found.bytes)], expecting: expecting))
    }

    private func isMade(_ outcome: CommitOutcome) throws -> Bool {
        switch outcome {
        case .committed: true
        case .conflict: false
        case .unknown(let error): throw error
        }
    }

    enum State { case intact, missing, damaged }

    /// Returns the state of a record's copy.
    func state(of record: RecordName) throws -> State {
        guard areKept, var first = try read(record)?.bytes else { return .intact }
        defer { Sodium.wipe(&first) }
        do {
            guard var copy = try read(record.copy)?.bytes else { return .missing }
            defer { Sodium.wipe(&copy) }
            return copy == first ? .intact : .damaged
        } catch is LockboxError { return .damaged }
    }

    private func read(_ record: RecordName) throws -> (bytes: [UInt8], revision: RecordRevision)? {
        try storage.withContents(of: record, atLeast: .max, maximum: KeybagHeader.maximumRecordLength) {
            contents in
            defer { Sodium.wipe(contents.bytes) }
            return (Array(contents.bytes), contents.revision)
        }
    }
}
