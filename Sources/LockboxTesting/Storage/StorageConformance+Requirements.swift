import LockboxCore
import LockboxSealed

extension StorageConformance {
    /// All requirements.
    public static let all: [StorageConformance] = [
        absent, roundTrip, limits, pages, copies, replacement, removal, expectations, severalChanges,
        revisions,
        namespaces, errors, locks, noLostUpdate, wholeRecords, listsAreComplete, transactions,
        notices, noticesEndFromWithin,
    ]

    private static let absent = StorageConformance("a record that was never stored is absent") {
        subject in
        let record = subject.record("missing")
        try subject.expect(subject.read(record) == nil, "a record")
        try subject.expect(subject.storage.read([record], maximum: 100).isEmpty, "a record among several")
        try subject.expect(subject.names().isEmpty, "names")
        try subject.expect(subject.names(waitingForCommits: true).isEmpty, "names behind commits")
        try subject.expect(subject.storage.namespaces().isEmpty, "namespaces")
        try subject.storage.synchronize("namespace")
        try subject.expect(subject.isCommitted([.remove(record)]), "a removal is a conflict")
        try subject.expect(subject.read(record) == nil, "a record after its removal")
    }

    private static let roundTrip = StorageConformance("records of every size are read as they were stored") {
        subject in
        for namespace in [nil, "namespace"] {
            for size in [0, 1, 4095, 4096, 4097, 65_537, 1 << 20] {
                let record = subject.record("of \(size)", in: namespace)
                let bytes = subject.bytes(size)
                try subject.put(record, bytes)
                try subject.expect(subject.read(record)?.bytes == bytes, "other bytes for \(size)")
            }
        }
    }

    private static let limits = StorageConformance("the limits of reads and of the storage hold") { subject in
        let record = subject.record("record")
        let bytes = subject.bytes(10_000)
        try subject.put(record, bytes)
        for limit in [0, 1, 5000, 10_000, .max] {
            _ = try subject.storage.read(record, upTo: limit, maximum: 10_000) { contents in
                let found = Array(contents.bytes)
                try subject.expect(found.count >= min(limit, 10_000), "\(found.count) bytes for \(limit)")
                try subject.expect(found == Array(bytes[..<found.count]), "other bytes than the first")
            }
        }
        let limits = subject.storage.limits
        try subject.expect(limits.maximumChanges >= 2, "less than two changes are allowed")
        let records = (0..<min(limits.maximumChanges, 200)).map { subject.record("\($0)") }
        try subject.expect(subject.isCommitted(records.map { .put($0, bytes) }), "many changes: a conflict")
        try subject.expect(subject.names().count == records.count + 1, "not all of many changes")
    }

    private static let pages = StorageConformance("pages have every record once, as it is read by itself") {
        subject in
        func pages(of namespace: String) throws -> [String: Record?] {
            var found: [String: Record?] = [:]
            try subject.storage.forEachPage(of: namespace, maximum: 1000, waitingForCommits: false) { page in
                for (name, record) in page {
                    try subject.expect(found.updateValue(record, forKey: name) == nil, "\(name) came twice")
                }
            }
            return found
        }
        try subject.expect(pages(of: "namespace").isEmpty, "records of an empty namespace")
        try subject.put(subject.record("elsewhere", in: "other"), subject.bytes())
        let names = (0..<250).map { "\($0)" }
        for name in names { try subject.put(subject.record(name), subject.bytes()) }
        try subject.put(subject.record("long"), subject.bytes(1001))
        let found = try pages(of: "namespace")
        try subject.expect(Set(found.keys) == Set(names + ["long"]), "other records than there are")
        try subject.expect(found["long"] == .some(nil), "contents of a record that is too long")
        for case (let name, let record?) in found {
            try subject.expect(record == subject.read(subject.record(name)), "other contents of \(name)")
        }
    }

    private static let copies = StorageConformance("a reader may overwrite its copy") { subject in
        let record = subject.record("record")
        let bytes = subject.bytes()
        try subject.put(record, bytes)
        _ = try subject.storage.read(record, upTo: .max, maximum: 100) { contents in
            for index in contents.bytes.indices { contents.bytes[index] = 0 }
        }
        for _ in 0..<2 { try subject.expect(subject.read(record)?.bytes == bytes, "the record has changed") }
    }

    private static let replacement = StorageConformance("a replaced record has the new bytes") { subject in
        let record = subject.record("record")
        for size in [100, 5000, 1] {
            let bytes = subject.bytes(size)
            try subject.put(record, bytes)
            try subject.expect(subject.read(record)?.bytes == bytes, "other bytes")
        }
        try subject.expect(subject.names() == ["record"], "other names")
    }

    private static let removal = StorageConformance("removing a record leaves the others") {
        subject in
        let (gone, kept) = (subject.record("gone"), subject.record("kept"))
        for record in [gone, kept] { try subject.put(record, subject.bytes()) }
        for _ in 0..<2 { try subject.expect(subject.isCommitted([.remove(gone)]), "a conflict") }
        for _ in 0..<2 { try subject.expect(subject.read(gone) == nil, "it is still stored") }
        try subject.expect(subject.read(kept) != nil, "another record is missing")
        try subject.expect(subject.names() == ["kept"], "other names")
    }

    private static let expectations = StorageConformance("nothing is changed unless every expectation holds")
    {
        subject in
        let (record, other) = (subject.record("record"), subject.record("other", in: nil))
        try subject.put(other, subject.bytes())
        let (first, second) = (subject.bytes(), subject.bytes())
        try subject.expect(
            subject.isCommitted([.put(record, first)], expecting: [record: .absent]),
            "an absent record is not found absent"
        )
        let revision = try subject.read(record)?.revision ?? .absent
        let otherRevision = try subject.read(other)?.revision ?? .absent
        try subject.put(other, subject.bytes())
        for wrong in [
            [record: .absent], [record: revision, other: .absent], [record: revision, other: otherRevision],
        ] {
            for change in [RecordChange.put(record, second), .remove(record)] {
                try subject.expect(!subject.isCommitted([change], expecting: wrong), "no conflict")
                try subject.expect(subject.read(record)?.bytes == first, "changed in spite of a conflict")
            }
        }
        try subject.expect(
            subject.isCommitted([.put(record, second)], expecting: [record: revision]),
            "a conflict although all expectations hold"
        )
        try subject.expect(subject.read(record)?.bytes == second, "not changed")
    }

    private static let severalChanges = StorageConformance("a commit makes all of its changes, or none") {
        subject in
        let (one, two) = (subject.record("one"), subject.record("two", in: "other"))
        let bytes = subject.bytes()
        try subject.put(two, bytes)
        let changes = [RecordChange.put(one, bytes), .remove(two)]
        try subject.expect(!subject.isCommitted(changes, expecting: [two: .absent]), "no conflict")
        try subject.expect(subject.read(one) == nil, "the first change was made in spite of a conflict")
        try subject.expect(subject.isCommitted(changes, expecting: [one: .absent]), "a conflict")
        try subject.expect(subject.read(one)?.bytes == bytes && subject.read(two) == nil, "not all of them")
        let found = try subject.storage.read([one, two], maximum: 100)
        try subject.expect(found.mapValues(\.bytes) == [one: bytes], "others are read")
        try subject.expect(found[one]?.revision == subject.read(one)?.revision, "another revision")
    }

    private static let revisions = StorageConformance("different bytes have different revisions") { subject in
        let record = subject.record("record")
        var seen: Set<RecordRevision> = [.absent]
        for round in 0..<20 {
            try subject.put(record, subject.bytes())
            let found = try subject.read(record)
            try subject.expect(found == subject.read(record), "two readings differ")
            try subject.expect(
                found.map { seen.insert($0.revision).inserted } == true,
                "a revision was reused"
            )
            if round.isMultiple(of: 3) { _ = try subject.isCommitted([.remove(record)]) }
        }
    }

    private static let namespaces = StorageConformance("namespaces are independent of each other") {
        subject in
        let places: [String?] = ["a", "b", "ab", nil]
        var bytes: [String?: [UInt8]] = [:]
        for place in places {
            bytes[place] = subject.bytes()
            try subject.put(subject.record("record", in: place), bytes[place] ?? [])
        }
        for place in places {
            let found = try subject.read(subject.record("record", in: place))
            try subject.expect(found?.bytes == bytes[place], "another's record")
        }
        for namespace in ["a", "b", "ab"] {
            try subject.expect(subject.names(in: namespace) == ["record"], "another's names")
        }
        _ = try subject.isCommitted([.remove(subject.record("record", in: "a"))])
        try subject.expect(subject.names(in: "a").isEmpty && subject.names(in: "ab") == ["record"], "names")
        try subject.expect(Set(subject.storage.namespaces()).isSuperset(of: ["b", "ab"]), "namespaces")
    }

    private static let errors = StorageConformance("records that are too long are refused, errors rethrown") {
        subject in
        struct Refusal: Error {}
        let record = subject.record("record")
        try subject.put(record, subject.bytes())
        do {
            _ = try subject.storage.read(record, upTo: .max, maximum: 99) { _ in }
            try subject.expect(false, "a record of 100 bytes is read although 99 is the limit")
        } catch let error as LockboxError where error.code == .corrupt {}
        do {
            _ = try subject.storage.read(record, upTo: .max, maximum: 100) { _ in throw Refusal() }
            try subject.expect(false, "an error of the closure of a read is lost")
        } catch is Refusal {}
        do {
            try subject.storage.forEachName(in: "namespace", waitingForCommits: false) { _ in throw Refusal()
            }
            try subject.expect(false, "an error of the closure of a list is lost")
        } catch is Refusal {}
        try subject.expect(subject.storage.location(of: record).contains("record"), "no name for an error")
    }
}
