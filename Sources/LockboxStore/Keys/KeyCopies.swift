import LockboxCore
import LockboxPlatform

extension RecordName {
    /// The second record with the same bytes. See ``KeyCopies``.
    var copy: RecordName { RecordName(namespace: namespace, name: "\(name)-copy") }
}

/// The copies of the keybag and the device key: second records with the same bytes, which are read where the first one is damaged or
/// missing.
///
/// A copy must not bring back keys that a change has taken away. So a change first removes the copies, and each of its commits expects
/// that there are none; and what is copied is expected not to change meanwhile. A transactional storage has no copies: it is a database,
/// which looks after its files itself.
struct KeyCopies: Sendable {
    let storage: any RecordStorage

    private static let records = [RecordName.keybag, .deviceKey]

    var areKept: Bool { !storage.limits.isTransactional }

    /// Expected by each commit that changes one of the records.
    var expected: [RecordName: RecordRevision] {
        areKept ? Dictionary(uniqueKeysWithValues: Self.records.map { ($0.copy, .absent) }) : [:]
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
    /// What is there may be whole, as another store's, and is set aside.
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
        return try isMade(
            lock.commit([.put(target, found.bytes)], expecting: [source: found.revision])
        )
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
        try storage.read(record, atLeast: .max, maximum: KeybagHeader.maximumRecordLength) { contents in
            defer { Sodium.wipe(contents.bytes) }
            return (Array(contents.bytes), contents.revision)
        }
    }
}
