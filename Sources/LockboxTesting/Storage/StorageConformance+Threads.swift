import Dispatch
import LockboxCore
import LockboxPlatform
import LockboxSealed

/// Requirements for concurrent access.
extension StorageConformance {
    static let locks = StorageConformance("no other commit gets past a lock") { subject in
        guard let storage = subject.storage as? any LockingStorage else { return }
        let record = subject.record("record")
        try subject.put(record, subject.bytes())
        var lock: (any StorageLock)?
        do { lock = try storage.lock("namespace") } catch let error as LockboxError
            where error.code == .notSupported
        { return }
        let isDone = DispatchSemaphore(value: 0)
        try detachThread {
            _ = try? subject.isCommitted([.put(record, [1])])
            isDone.signal()
        }
        let isOvertaken = isDone.wait(timeout: .now() + 0.1) == .success
        let outcome = Result { try storage.commit([.put(record, [2])], expecting: [:], lock: &lock) }
        lock?.release()
        isDone.wait()
        try subject.expect(!isOvertaken, "another commit came in between")
        guard case .committed = try outcome.get() else {
            return try subject.expect(false, "the commit of who held the lock failed")
        }
        try subject.expect(subject.read(record)?.bytes == [1], "the commit that had to wait is lost")
    }

    static let noLostUpdate = StorageConformance("of two commits that expect one revision, one succeeds") {
        subject in
        let record = subject.record("counter")
        try subject.put(record, subject.bytes(16) + [0, 0])
        try concurrently(8) { _ in
            for _ in 0..<25 { try increment(record, subject) }
        }
        let bytes = try subject.read(record)?.bytes ?? []
        let count = bytes.count == 18 ? Int(bytes[16]) + Int(bytes[17]) << 8 : -1
        try subject.expect(count == 200, "\(count) of 200 increments")
    }

    private static func increment(_ record: RecordName, _ subject: StorageSubject) throws {
        var lock: (any StorageLock)?
        defer { lock?.release() }
        let storage = subject.storage
        let locking = storage as? any LockingStorage
        while true {
            guard let old = try storage.read([record], maximum: 100)[record] else {
                return try subject.expect(false, "the record is missing")
            }
            let count = Int(old.bytes[16]) + Int(old.bytes[17]) << 8 + 1
            let bytes = subject.bytes(16) + [UInt8(count & 0xFF), UInt8(count >> 8)]
            let (changes, expected) = ([RecordChange.put(record, bytes)], [record: old.revision])
            let outcome =
                try locking?.commit(changes, expecting: expected, lock: &lock)
                ?? storage.commit(changes, expecting: expected)
            switch outcome {
            case .committed: return
            case .conflict: continue
            case .unknown(let error): throw error
            }
        }
    }

    static let wholeRecords = StorageConformance("a reader finds the complete old or new record") {
        subject in
        let record = subject.record("record")
        let versions = [3000, 50_000].map { subject.bytes($0) }
        try subject.put(record, versions[0])
        try besideWriter { round in
            try subject.put(record, versions[round % 2])
        } reading: { _ in
            let found = try subject.read(record)?.bytes
            try subject.expect(found.map(versions.contains) == true, "neither of the two")
        }
    }

    static let listsAreComplete = StorageConformance("every list has the records that exist throughout") {
        subject in
        let records = (0..<20).map { subject.record("record \($0)") }
        for record in records { try subject.put(record, subject.bytes()) }
        let expected = records.map(\.name).sorted()
        try besideWriter { round in
            try subject.put(records[round % records.count], subject.bytes())
        } reading: { thread in
            let found = try subject.names(waitingForCommits: thread == 1)
            try subject.expect(found == expected, "\(Set(expected).subtracting(found)) are missing")
        }
    }

    static let transactions = StorageConformance("commits of a transactional storage are atomic") {
        subject in
        guard subject.storage.limits.isTransactional else { return }
        let records = [subject.record("one"), subject.record("two", in: "other")]
        let versions = [subject.bytes(), subject.bytes()]
        @Sendable func changes(_ round: Int) -> [RecordChange] {
            records.map { .put($0, versions[round % 2]) }
        }
        _ = try subject.isCommitted(changes(0))
        try besideWriter { round in
            _ = try subject.isCommitted(changes(round))
        } reading: { _ in
            let found = try subject.storage.read(records, maximum: 100)
            let bytes = Set(found.values.map(\.bytes))
            try subject.expect(found.count == 2 && bytes.count == 1, "one of two changes is seen")
        }
    }

    /// While another thread writes, two threads read fifty times each.
    private static func besideWriter(
        _ write: @escaping @Sendable (_ round: Int) throws -> Void,
        reading read: @escaping @Sendable (_ thread: Int) throws -> Void
    ) throws {
        let readers = Protected(2)
        try concurrently(3) { thread in
            if thread == 2 {
                var round = 0
                while readers.withLock({ $0 > 0 }) {
                    round += 1
                    try write(round)
                }
            } else {
                defer { readers.withLock { $0 -= 1 } }
                for _ in 0..<50 { try read(thread) }
            }
        }
    }

    /// Rethrows the first error of a thread.
    private static func concurrently(_ threads: Int, _ body: @escaping @Sendable (Int) throws -> Void) throws
    {
        let error = Protected<(any Error)?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        for thread in 0..<threads {
            // Explicit threads, because a queue may run its work items one after the other.
            try detachThread {
                do { try body(thread) } catch let failure { error.withLock { $0 = $0 ?? failure } }
                isDone.signal()
            }
        }
        for _ in 0..<threads { isDone.wait() }
        if let error = error.withLock({ $0 }) { throw error }
    }
}
