import LockboxCore

/// The keybag's lock, if the storage has locks. One that is lost is no reason to stop half way: a commit is made once more without it,
/// and so expects all that the caller has looked at.
final class KeybagLock {
    private let storage: any RecordStorage
    private var held: (any StorageLock)?
    /// Whether a stage of the change that is made under the lock has been written.
    var hasBegun = false

    /// Takes the lock.
    init(_ storage: any RecordStorage) throws {
        self.storage = storage
        try take()
    }

    /// Takes the lock again if it has been lost.
    func take() throws { if held == nil { held = try storage.lockIfSupported([nil]) } }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        let expecting = KeyCopies(storage: storage).expected(by: changes, expecting)
        if let held {
            let outcome = try held.commit(changes, expecting: expecting)
            guard case .conflict = outcome else { return outcome }
            release()
        }
        return try storage.commit(changes, expecting: expecting)
    }

    func quarantine(_ record: RecordName) throws -> String { try held.quarantine(record) }

    func release() {
        held?.release()
        held = nil
    }
}
