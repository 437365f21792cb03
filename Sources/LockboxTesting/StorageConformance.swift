import LockboxCore
import LockboxPlatform
public import LockboxStore

/// A requirement of the `RecordStorage` contract, which a storage can be checked against.
///
/// With Swift Testing:
///
/// ```swift
/// @_spi(Extensions) import LockboxTesting
///
/// @Test(arguments: StorageConformance.all)
/// func conforms(_ requirement: StorageConformance) throws {
///     try requirement.check { [try MyStorage(), try MyStorage()] }
/// }
/// ```
///
/// With any other test library, call `try StorageConformance.checkAll { … }` in one test.
public struct StorageConformance: Sendable, CustomStringConvertible {
    /// Opens a storage again: see ``check(within:reopen:_:)``.
    public typealias Reopening = @Sendable (_ storages: [any RecordStorage]) throws -> [any RecordStorage]

    /// The requirement in a few words.
    public let description: String

    private let requirement: @Sendable (_ subject: StorageSubject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ subject: StorageSubject) throws -> Void)
    {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one storage against this requirement. A storage that refuses what a requirement is about with
    /// `LockboxError.notSupported`, such as `subscribe`, or has no locks, passes.
    ///
    /// - Parameters:
    ///   - limit: The time limit. A check that exceeds it fails, and its thread is abandoned.
    ///   - reopen: Returns new instances on the records of those it is given, as after a restart. If `nil`, for a storage that
    ///     keeps nothing, what is there after a restart is not checked.
    ///   - open: Returns an empty storage, or several instances that share the same records, as in different
    ///     processes. The checks use them in turn.
    /// - Throws: ``ConformanceFailure``, or the error of `open`.
    public func check(
        within limit: Duration = .seconds(120),
        reopen: Reopening? = nil,
        _ open: () throws -> [any RecordStorage]
    ) throws {
        let subject = StorageSubject(
            storages: try open(),
            requirement: description,
            patience: limit / 4,
            reopen: reopen
        )
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each with new storages.
    ///
    /// - Parameters:
    ///   - limit: The time limit for each check.
    ///   - reopen: Returns new instances on the same records: see ``check(within:reopen:_:)``.
    ///   - open: Returns storages as in ``check(within:reopen:_:)``. Called for each requirement.
    /// - Throws: ``ConformanceFailure`` for the first requirement that is not met, or the error of `open`.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        reopen: Reopening? = nil,
        _ open: () throws -> [any RecordStorage]
    ) throws {
        for requirement in all { try requirement.check(within: limit, reopen: reopen, open) }
    }
}

extension StorageConformance {
    /// All requirements.
    public static let all: [StorageConformance] = [
        absent, roundTrip, limits, pages, copies, replacement, removal, namespaces, errors,
        expectations, severalChanges, revisions, restarts,
        locks, lostLocks, lockEndsWithItsOwner, lookUpsDoNotWait,
        noLostUpdate, noWriteSkew, wholeRecords, listsAreComplete, listsBehindCommits, transactions,
        cleanFindings, quarantine, notices, noticesEndFromWithin,
    ]

    static let absent = StorageConformance("a record that was never stored is absent") { subject in
        let record = subject.record("missing")
        try subject.expect(record, is: nil, after: "nothing")
        let found = try subject.storage.read([record], maximum: 100)
        try subject.expect(found.isEmpty, "read of several records found \(found.count) in an empty storage")
        for isWaiting in [false, true] {
            let names = try subject.names(waitingForCommits: isWaiting)
            try subject.expect(names.isEmpty, "forEachName gave \(names) in an empty storage")
        }
        let namespaces = try subject.storage.namespaces()
        try subject.expect(namespaces.isEmpty, "namespaces() returned \(namespaces) for an empty storage")
        try subject.commit([.remove(record)])
        try subject.expect(record, is: nil, after: "its removal")
    }

    static let roundTrip = StorageConformance("records of every size are read as they were stored") {
        subject in
        let longest = min(subject.storage.limits.maximumRecordLength, 1 << 20)
        for namespace in [nil, "namespace"] {
            for size in [0, 1, 4095, 4096, 4097, 65_537, longest] {
                let record = subject.record("of \(size)", in: namespace)
                let bytes = subject.bytes(size)
                try subject.put(record, bytes)
                try subject.expect(record, is: bytes, after: "a commit of \(size) bytes")
            }
        }
    }

    static let limits = StorageConformance("the limits of reads and of the storage hold") { subject in
        let record = subject.record("record")
        let bytes = subject.bytes(10_000)
        try subject.put(record, bytes)
        for minimum in [0, 1, 5000, 10_000, .max] {
            try subject.storage.read(record, atLeast: minimum, maximum: 10_000) { contents in
                let found = Array(contents.bytes)
                try subject.expect(
                    found.count >= min(minimum, 10_000),
                    "read(_:atLeast: \(minimum)…) gave \(found.count) bytes"
                )
                try subject.expect(
                    found == Array(bytes[..<found.count]),
                    "read(_:atLeast: \(minimum)…) gave other bytes than the first"
                )
            }
        }
        let limits = subject.storage.limits
        try subject.expect(
            limits.maximumChanges >= 2,
            "maximumChanges is \(limits.maximumChanges), which is less than two"
        )
        try subject.expect(
            limits.maximumCommitLength >= limits.maximumRecordLength,
            "maximumCommitLength is \(limits.maximumCommitLength), which is less than maximumLength, \(limits.maximumRecordLength)"
        )
        let count = min(limits.maximumChanges, limits.maximumCommitLength / bytes.count, 200)
        let records = (0..<count).map { subject.record("\($0)") }
        try subject.commit(records.map { .put($0, bytes) })
        try subject.expectNames(Set(records.map(\.name) + ["record"]), after: "a commit of \(count) records")
    }

    static let pages = StorageConformance("pages have every record once, as it is read by itself") {
        subject in
        guard let paging = subject.storage as? any PagingStorage else { return }
        try subject.expect(subject.pages().isEmpty, "forEachPage gave records of an empty namespace")
        try subject.put(subject.record("elsewhere", in: "other"), subject.bytes())
        let names = (0..<250).map { "\($0)" }
        for name in names { try subject.put(subject.record(name), subject.bytes()) }
        try subject.put(subject.record("long"), subject.bytes(1001))
        let found = try subject.pages(maximum: 1000)
        let (expected, given) = (Set(names + ["long"]), Set(found.keys))
        try subject.expect(
            given == expected,
            """
            forEachPage left out \(expected.subtracting(given).sorted()), and gave \(given.subtracting(expected).sorted()), \
            which are not in the namespace
            """
        )
        try subject.expect(
            found["long"] == .some(nil),
            "forEachPage(of:maximum: 1000…) gave the contents of a record of 1001 bytes"
        )
        for case (let name, let record?) in found {
            try subject.expect(
                record == subject.read(subject.record(name)),
                "forEachPage gave other contents of the record \(name) than read"
            )
        }
        try paging.forEachPage(of: "namespace", maximum: 1000, waitingForCommits: false) { page in
            guard let name = page.first?.name else { return }
            try subject.reenter("a read in the closure of forEachPage") {
                _ = try subject.read(subject.record(name))
            }
        }
    }

    static let copies = StorageConformance("a reader may overwrite its copy") { subject in
        let record = subject.record("record")
        let bytes = subject.bytes()
        try subject.put(record, bytes)
        try subject.storage.read(record, atLeast: .max, maximum: 100) { contents in
            for index in contents.bytes.indices { contents.bytes[index] = 0 }
        }
        for _ in 0..<2 { try subject.expect(record, is: bytes, after: "a reader has overwritten its copy") }
    }

    static let replacement = StorageConformance("a replaced record has the new bytes") { subject in
        let record = subject.record("record")
        for size in [100, 5000, 1] {
            let bytes = subject.bytes(size)
            try subject.put(record, bytes)
            try subject.expect(record, is: bytes, after: "a commit that puts the record")
        }
        try subject.expectNames(["record"], after: "commits that put one record")
    }

    static let removal = StorageConformance("removing a record leaves the others") { subject in
        let (gone, kept) = (subject.record("gone"), subject.record("kept"))
        let bytes = subject.bytes()
        for record in [gone, kept] { try subject.put(record, bytes) }
        for _ in 0..<2 { try subject.commit([.remove(gone)]) }
        for _ in 0..<2 { try subject.expect(gone, is: nil, after: "its removal") }
        try subject.expect(kept, is: bytes, after: "the removal of another record")
        try subject.expectNames(["kept"], after: "the removal of a record")
    }

    static let namespaces = StorageConformance("namespaces are independent of each other") { subject in
        let namespaces: [String?] = ["a", "b", "ab", nil]
        var bytes: [String?: [UInt8]] = [:]
        for namespace in namespaces {
            bytes[namespace] = subject.bytes()
            try subject.put(subject.record("record", in: namespace), bytes[namespace] ?? [])
        }
        let writes = "commits to several namespaces"
        for namespace in namespaces {
            try subject.expect(subject.record("record", in: namespace), is: bytes[namespace], after: writes)
        }
        for namespace in ["a", "b", "ab"] {
            try subject.expectNames(["record"], in: namespace, after: writes)
        }
        try subject.commit([.remove(subject.record("record", in: "a"))])
        try subject.expectNames([], in: "a", after: "the removal of its record")
        try subject.expectNames(["record"], in: "ab", after: "the removal of a record in another namespace")
        let found = try subject.storage.namespaces()
        try subject.expect(
            Set(found).isSuperset(of: ["b", "ab"]),
            "namespaces() returned \(found.sorted()), and there are records in ab and b"
        )
    }

    static let errors = StorageConformance("records that are too long are refused, errors rethrown") {
        subject in
        let record = subject.record("record")
        let storage = subject.storage
        try subject.put(record, subject.bytes())
        let expected = ".corrupt(record: .record(_:), reason:)"
        func isOfTheRecord(_ error: LockboxError?) -> Bool {
            error?.code == .corrupt && error?.isOfOneRecord == true
        }
        let one = "read(_:atLeast:maximum: 99) of 100 bytes"
        try subject.expectError(expected, from: one, where: isOfTheRecord) {
            try storage.read(record, atLeast: .max, maximum: 99) { _ in }
        }
        let several = "read(_:maximum: 99) of 100 bytes"
        try subject.expectError(expected, from: several, where: isOfTheRecord) {
            _ = try storage.read([record], maximum: 99)
        }
        try subject.expectRethrow(from: "read") { refuse in
            try storage.read(record, atLeast: .max, maximum: 100) { _ in try refuse() }
        }
        try subject.expectRethrow(from: "forEachName") { refuse in
            try storage.forEachName(in: "namespace", waitingForCommits: false) { _ in try refuse() }
        }
        if let paging = storage as? any PagingStorage {
            try subject.expectRethrow(from: "forEachPage") { refuse in
                try paging.forEachPage(of: "namespace", maximum: 100, waitingForCommits: false) { _ in
                    try refuse()
                }
            }
        }
        let location = storage.location(of: record)
        try subject.expect(
            location.contains("record"),
            "location(of:) returned \(location), which does not name the record"
        )
        let folder = storage.location(of: subject.record(""))
        let other = storage.location(of: subject.record("record", in: "namespace2"))
        try subject.expect(
            location.hasPrefix(folder) && !other.hasPrefix(folder),
            "location(of:) of an empty name, \(folder), is not how the locations of the namespace's records begin"
        )
    }
}

/// The storage under test, with helpers for the checks.
final class StorageSubject: ConformanceSubject {
    private let storages: Protected<[any RecordStorage]>
    private let count = Protected(0)
    private let reopening: StorageConformance.Reopening?
    let requirement: String
    let patience: Duration

    static let maximum = 1 << 22

    init(
        storages: [any RecordStorage],
        requirement: String,
        patience: Duration,
        reopen: StorageConformance.Reopening?
    ) {
        self.storages = Protected(storages)
        self.requirement = requirement
        self.patience = patience
        reopening = reopen
    }

    /// If there are several instances, a different one each time.
    var storage: any RecordStorage {
        let storages = storages.withLock { $0 }
        return count.withLock { count in
            count += 1
            return storages[count % storages.count]
        }
    }

    /// Returns false if the author of the storage has not said how.
    func reopen() throws -> Bool {
        guard let reopening else { return false }
        let new = try reopening(storages.withLock { $0 })
        storages.withLock { $0 = new }
        return true
    }

    func record(_ name: String, in namespace: String? = "namespace") -> RecordName {
        RecordName(namespace: namespace, name: name)
    }

    /// Bytes that are random at the beginning, like sealed records.
    func bytes(_ count: Int = 100) -> [UInt8] {
        var bytes = [UInt8](repeating: .random(in: .min ... .max), count: count)
        for index in bytes.prefix(16).indices { bytes[index] = .random(in: .min ... .max) }
        return bytes
    }

    func read(_ record: RecordName) throws -> Record? {
        try storage.withContents(of: record, atLeast: .max, maximum: Self.maximum) {
            Record(bytes: Array($0.bytes), revision: $0.revision)
        }
    }

    func names(in namespace: String = "namespace", waitingForCommits: Bool = false) throws -> [String] {
        var names: [String] = []
        try storage.forEachName(in: namespace, waitingForCommits: waitingForCommits) { names.append($0) }
        return names.sorted()
    }

    /// Returns the records in pages, or the names if there are none.
    func pages(
        of namespace: String = "namespace",
        maximum: Int = maximum,
        waitingForCommits: Bool = false
    ) throws -> [String: Record?] {
        guard let paging = storage as? any PagingStorage else {
            let names = try names(in: namespace, waitingForCommits: waitingForCommits)
            return Dictionary(uniqueKeysWithValues: names.map { ($0, nil) })
        }
        var found: [String: Record?] = [:]
        try paging.forEachPage(of: namespace, maximum: maximum, waitingForCommits: waitingForCommits) {
            page in
            for (name, record) in page {
                let isNew = found.updateValue(record, forKey: name) == nil
                try expect(isNew, "forEachPage gave the record \(name) twice")
            }
        }
        return found
    }

    /// Returns false on a conflict.
    func isCommitted(_ changes: [RecordChange], expecting: [RecordName: RecordRevision] = [:]) throws -> Bool
    {
        switch try storage.commit(changes, expecting: expecting) {
        case .committed: return true
        case .conflict: return false
        case .unknown(let error): throw error
        }
    }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision] = [:]) throws {
        let what = expecting.isEmpty ? "nothing" : "the revisions that the records have"
        try expect(
            isCommitted(changes, expecting: expecting),
            "a commit that expects \(what) returned a conflict"
        )
    }

    func put(_ record: RecordName, _ bytes: [UInt8]) throws { try commit([.put(record, bytes)]) }

    /// Expects the bytes of a record, or that it is absent.
    ///
    /// - Parameter call: The call made before.
    func expect(_ record: RecordName, is expected: [UInt8]?, after call: String) throws {
        let found = try read(record)?.bytes
        if found == expected { return }
        let text =
            found.map { $0.count == expected?.count ? "other bytes" : "\($0.count) bytes" } ?? "no record"
        let wanted = expected.map { "the \($0.count) that were committed" } ?? "none"
        throw failure("after \(call), read found \(text), not \(wanted)")
    }

    /// Expects the names of a namespace.
    func expectNames(_ expected: Set<String>, in namespace: String = "namespace", after call: String) throws {
        let found = try names(in: namespace)
        try expect(
            found == expected.sorted(),
            "after \(call), forEachName gave \(found), not \(expected.sorted())"
        )
    }
}
