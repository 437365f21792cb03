import Dispatch
import LockboxCore
import LockboxPlatform
import LockboxSealed

/// Requirements for storages that have locks.
extension StorageConformance {
    static let locks = StorageConformance("no other commit gets past a lock") { subject in
        let record = subject.record("record")
        guard let (storage, held) = try lock(subject) else { return }
        var lock: (any StorageLock)? = held
        try expectExclusion("the lock of a namespace", record, subject) {
            try storage.commit([.put(record, [2])], expecting: [:], lock: &lock)
        } release: {
            lock?.release()
        }
    }

    static let lockAfterAConflict = StorageConformance(
        "after a conflict, no other commit comes before the next attempt"
    ) {
        subject in
        let record = subject.record("record")
        try subject.put(record, subject.bytes())
        guard let (storage, held) = try lock(subject) else { return }
        held.release()
        var lock: (any StorageLock)?
        let outcome = try storage.commit([.put(record, [0])], expecting: [record: .absent], lock: &lock)
        guard case .conflict = outcome, lock != nil else {
            throw subject.failure(
                "commit(_:expecting:lock:) returned \(outcome) and \(lock == nil ? "no lock" : "a lock")"
            )
        }
        try expectExclusion("the lock that a conflict left", record, subject) {
            try storage.commit([.put(record, [2])], expecting: [:], lock: &lock)
        } release: {
            lock?.release()
        }
    }

    static let lockEndsWithItsOwner = StorageConformance("a lock ends when it is released or deallocated") {
        subject in
        let record = subject.record("record")
        for isReleased in [true, false] {
            var held = try lock(subject)?.lock
            if held == nil { return }
            if isReleased { held?.release() } else { held = nil }
            let isDone = DispatchSemaphore(value: 0)
            try detachThread {
                _ = try? subject.isCommitted([.put(record, [1])])
                isDone.signal()
            }
            let ended = isDone.wait(timeout: .now() + subject.patience / .seconds(1)) == .success
            held?.release()
            try subject.expect(
                ended,
                "a commit waits for a lock that has been \(isReleased ? "released" : "deallocated")"
            )
        }
    }

    static let lookUpsDoNotWait = StorageConformance("looking up records waits for no lock") { subject in
        let (record, other) = (subject.record("record"), subject.record("other", in: nil))
        let bytes = subject.bytes()
        for record in [record, other] { try subject.put(record, bytes) }
        guard let (storage, held) = try lock(subject) else { return }
        let outer = try storage.lock(nil)
        defer { for lock in [held, outer] { lock.release() } }
        let calls: [(name: String, call: @Sendable () throws -> Void)] = [
            ("read(_:upTo:maximum:_:)", { _ = try subject.read(record) }),
            ("read(_:upTo:maximum:_:) outside the namespaces", { _ = try subject.read(other) }),
            ("read(_:maximum:)", { _ = try subject.storage.read([record, other], maximum: 100) }),
            ("forEachName, without waiting for commits,", { _ = try subject.names() }),
            ("forEachPage, without waiting for commits,", { _ = try subject.pages() }),
            ("namespaces()", { _ = try subject.storage.namespaces() }),
        ]
        for (name, call) in calls {
            try subject.expectReturn("\(name) did not return while a lock is held", call)
        }
    }

    /// Takes the lock of the namespace. Nil if there are no locks.
    private static func lock(_ subject: StorageSubject) throws -> (
        storage: any LockingStorage, lock: any StorageLock
    )? {
        guard let storage = subject.storage as? any LockingStorage else { return nil }
        return try subject.ifSupported { (storage, try storage.lock("namespace")) }
    }

    /// Expects that another commit waits until the lock is released, and takes effect then.
    ///
    /// - Parameter commit: Puts `[2]` under the lock.
    private static func expectExclusion(
        _ lock: String,
        _ record: RecordName,
        _ subject: StorageSubject,
        commit: () throws -> CommitOutcome,
        release: () -> Void
    ) throws {
        let isDone = DispatchSemaphore(value: 0)
        try detachThread {
            _ = try? subject.isCommitted([.put(record, [1])])
            isDone.signal()
        }
        let isOvertaken = isDone.wait(timeout: .now() + 0.1) == .success
        let outcome = Result { try commit() }
        release()
        if !isOvertaken { isDone.wait() }
        try subject.expect(!isOvertaken, "another commit did not wait for \(lock)")
        guard case .committed = try outcome.get() else {
            throw subject.failure("the commit under \(lock) returned \(try outcome.get())")
        }
        try subject.expect(record, is: [1], after: "the commit that had waited for \(lock)")
    }
}
