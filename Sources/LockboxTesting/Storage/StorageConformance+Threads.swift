import Dispatch
import LockboxCore
import LockboxPlatform
import LockboxSealed

/// Requirements for concurrent access.
extension StorageConformance {
    static let noLostUpdate = StorageConformance("of two commits that expect one revision, one succeeds") {
        subject in
        let record = subject.record("counter")
        try subject.put(record, subject.bytes(16) + [0, 0])
        try concurrently(8) { _ in
            for _ in 0..<25 { try increment(record, subject) }
        }
        let bytes = try subject.read(record)?.bytes ?? []
        let count = bytes.count == 18 ? Int(bytes[16]) + Int(bytes[17]) << 8 : -1
        try subject.expect(count == 200, "after 200 commits that each add one, the count is \(count)")
    }

    private static func increment(_ record: RecordName, _ subject: StorageSubject) throws {
        var lock: (any StorageLock)?
        defer { lock?.release() }
        let storage = subject.storage
        let locking = storage as? any LockingStorage
        while true {
            guard let old = try storage.read([record], maximum: 100)[record] else {
                throw subject.failure("read found no record while others replace it")
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
            try subject.expect(
                found.map(versions.contains) == true,
                "read found neither the old nor the new record"
            )
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
            try subject.expect(
                found == expected,
                "forEachName left out \(Set(expected).subtracting(found).sorted())"
            )
        }
    }

    static let listsBehindCommits = StorageConformance(
        "a list that waits for commits has all that were made before a record that they expect was replaced"
    ) { subject in
        let keybag = subject.record("keybag", in: nil)
        try subject.put(keybag, subject.bytes())
        for round in 0..<20 {
            let namespace = "round-\(round)"
            let expected = [keybag: try subject.read(keybag)?.revision ?? .absent]
            let writer = Protected<(committed: Set<String>, end: Result<Void, any Error>?)>(([], nil))
            try detachThread {
                let end = Result {
                    var isCurrent = true
                    while isCurrent {
                        let record = subject.record(
                            "\(writer.withLock { $0.committed.count })",
                            in: namespace
                        )
                        isCurrent = try subject.isCommitted(
                            [.put(record, subject.bytes())],
                            expecting: expected
                        )
                        if isCurrent { writer.withLock { _ = $0.committed.insert(record.name) } }
                    }
                }
                writer.withLock { $0.end = end }
            }
            try subject.wait("three commits did not return") {
                writer.withLock { $0.committed.count > 2 || $0.end != nil }
            }
            try subject.commit([.put(keybag, subject.bytes())], expecting: expected)
            let listed =
                round.isMultiple(of: 2)
                ? try subject.names(in: namespace, waitingForCommits: true)
                : try Array(subject.pages(of: namespace, waitingForCommits: true).keys)
            try subject.wait("a commit did not return") { writer.withLock { $0.end != nil } }
            try writer.withLock { $0.end }?.get()
            let missing = writer.withLock { $0.committed }.subtracting(listed)
            try subject.expect(
                missing.isEmpty,
                """
                \(round.isMultiple(of: 2) ? "forEachName" : "forEachPage") left out \(missing.sorted()), whose commits expected the \
                revision of a record that was replaced before the list
                """
            )
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
        try subject.commit(changes(0))
        try besideWriter { round in
            try subject.commit(changes(round))
        } reading: { _ in
            let found = try subject.storage.read(records, maximum: 100)
            let bytes = Set(found.values.map(\.bytes))
            try subject.expect(
                found.count == 2 && bytes.count == 1,
                "read of two records found one of two changes of a commit, and not the other"
            )
        }
    }

    /// While another thread writes ten times or more, two threads read fifty times or more each.
    private static func besideWriter(
        _ write: @escaping @Sendable (_ round: Int) throws -> Void,
        reading read: @escaping @Sendable (_ thread: Int) throws -> Void
    ) throws {
        let (readers, rounds) = (Protected(2), Protected(0))
        try concurrently(3) { thread in
            if thread == 2 {
                defer { rounds.withLock { $0 = .max } }
                while readers.withLock({ $0 > 0 }) {
                    try write(rounds.withLock { $0 })
                    rounds.withLock { $0 += 1 }
                }
            } else {
                defer { readers.withLock { $0 -= 1 } }
                var count = 0
                while count < 50 || rounds.withLock({ $0 < 10 }) {
                    count += 1
                    try read(thread)
                }
            }
        }
    }
}
