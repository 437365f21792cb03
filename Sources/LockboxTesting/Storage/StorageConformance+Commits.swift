import LockboxCore
import LockboxSealed

extension StorageConformance {
    static let expectations = StorageConformance("nothing is changed unless every expectation holds") {
        subject in
        let (record, other) = (subject.record("record"), subject.record("other", in: nil))
        // One is before the record by name, and one after it: an engine may compare in that order.
        let last = subject.record("record", in: "other")
        for name in [other, last] { try subject.put(name, subject.bytes()) }
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
