import Dispatch
@_spi(Extensions) import LockboxCore
import LockboxPlatform
import LockboxStore

extension StorageConformance {
    static let expectations = StorageConformance("nothing is changed unless every expectation holds") {
        subject in
        let (record, other) = (subject.record("record"), subject.record("other", in: nil))
        // One is before the record by name, and one after it: an engine may compare in that order.
        let last = subject.record("record", in: "other")
        let beside = subject.record("beside")
        for name in [other, last, beside] { try subject.put(name, subject.bytes()) }
        let (first, second) = (subject.bytes(), subject.bytes())
        try subject.expect(
            subject.isCommitted([.put(record, first)], expecting: [record: .absent]),
            "a commit that expects an absent record to be absent returned a conflict"
        )
        let revision = try subject.read(record)?.revision ?? .absent
        let otherRevision = try subject.read(other)?.revision ?? .absent
        try subject.put(other, subject.bytes())
        let wrong: [(what: String, expected: [RecordName: RecordRevision])] = [
            ("a record to be absent that exists", [record: .absent]),
            ("another record to be absent that exists", [record: revision, other: .absent]),
            ("an old revision of another record", [record: revision, other: otherRevision]),
            ("a record of another namespace to be absent that exists", [record: revision, last: .absent]),
            (
                "a record of its namespace, which it leaves alone, to be absent that exists",
                [record: revision, beside: .absent]
            ),
        ]
        for (what, expected) in wrong {
            for change in [RecordChange.put(record, second), .remove(record)] {
                try subject.expect(
                    !subject.isCommitted([change], expecting: expected),
                    "a commit that expects \(what) returned no conflict"
                )
                try subject.expect(record, is: first, after: "a conflict")
            }
        }
        try subject.commit([.put(record, second)], expecting: [record: revision])
        try subject.expect(record, is: second, after: "a commit that expects the record's revision")
    }

    static let severalChanges = StorageConformance("a commit makes all of its changes, or none") { subject in
        let (one, two) = (subject.record("one"), subject.record("two", in: "other"))
        let bytes = subject.bytes()
        try subject.put(two, bytes)
        let changes = [RecordChange.put(one, bytes), .remove(two)]
        try subject.expect(
            !subject.isCommitted(changes, expecting: [two: .absent]),
            "a commit that expects a record to be absent that exists returned no conflict"
        )
        try subject.expect(one, is: nil, after: "a conflict")
        try subject.commit(changes, expecting: [one: .absent])
        try subject.expect(one, is: bytes, after: "a commit that puts it and removes another record")
        try subject.expect(two, is: nil, after: "a commit that removes it and puts another record")
        let found = try subject.storage.read([one, two], maximum: 100)
        let record = try subject.read(one)
        try subject.expect(
            found == record.map { [one: $0] },
            "read of two records, one of them absent, found \(found), and read of one found \(text(record))"
        )
    }

    static let revisions = StorageConformance("different bytes have different revisions") { subject in
        var seen: Set<RecordRevision> = [.absent]
        try replaceOften(subject, &seen)
    }

    static let restarts = StorageConformance(
        "records stay through a restart, and no revision is used again after it"
    ) {
        subject in
        var seen: Set<RecordRevision> = [.absent]
        try replaceOften(subject, &seen)
        let kept = subject.record("kept", in: "other")
        let bytes = subject.bytes()
        try subject.put(kept, bytes)
        try subject.commit([.remove(subject.record("record"))])
        guard try subject.reopen() else { return }
        try subject.expect(kept, is: bytes, after: "a restart")
        try subject.expect(subject.record("record"), is: nil, after: "its removal and a restart")
        let namespaces = try subject.storage.namespaces()
        try subject.expect(
            namespaces.contains("other"),
            "after a restart, namespaces() returned \(namespaces), without the one that has a record"
        )
        try replaceOften(subject, &seen)
    }

    /// Expects a new revision for each of twenty versions of a record.
    private static func replaceOften(_ subject: StorageSubject, _ seen: inout Set<RecordRevision>) throws {
        let record = subject.record("record")
        for round in 0..<20 {
            try subject.put(record, subject.bytes())
            let found = try subject.read(record)
            try subject.expect(found == subject.read(record), "two reads of one record found different ones")
            let isNew = found.map { seen.insert($0.revision).inserted } ?? false
            try subject.expect(isNew, "read found a revision that other bytes had before")
            if round.isMultiple(of: 3) { try subject.commit([.remove(record)]) }
        }
    }
}

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

    static let noWriteSkew = StorageConformance(
        "of two commits that each change what the other expects, one succeeds"
    ) { subject in
        for namespace in ["namespace", "other"] {
            let records = [subject.record("one"), subject.record("two", in: namespace)]
            for _ in 0..<20 {
                for record in records { try subject.put(record, subject.bytes()) }
                let revisions = try records.map { try subject.read($0)?.revision ?? .absent }
                try concurrently(2) { thread in
                    _ = try subject.isCommitted(
                        [.remove(records[thread])],
                        expecting: [records[0]: revisions[0], records[1]: revisions[1]]
                    )
                }
                let left = try subject.storage.read(records, maximum: 100)
                try subject.expect(
                    left.count == 1,
                    "of two records, two commits that each remove one and expect the other left \(left.count)"
                )
            }
        }
    }

    private static func increment(_ record: RecordName, _ subject: StorageSubject) throws {
        let storage = subject.storage
        while true {
            guard let old = try storage.read([record], maximum: 100)[record] else {
                throw subject.failure("read found no record while others replace it")
            }
            let count = Int(old.bytes[16]) + Int(old.bytes[17]) << 8 + 1
            let bytes = subject.bytes(16) + [UInt8(count & 0xFF), UInt8(count >> 8)]
            if try subject.isCommitted([.put(record, bytes)], expecting: [record: old.revision]) { return }
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
