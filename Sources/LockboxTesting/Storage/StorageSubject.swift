import LockboxCore
import LockboxPlatform
import LockboxSealed

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
        var found: Record?
        let isThere = try storage.read(record, upTo: .max, maximum: Self.maximum) { contents in
            let revision = contents.revision
            found = Record(bytes: Array(contents.bytes), revision: revision)
        }
        try expect(
            isThere == (found != nil),
            "read returned \(isThere), and its closure was \(found == nil ? "not " : "")called"
        )
        return found
    }

    func names(in namespace: String = "namespace", waitingForCommits: Bool = false) throws -> [String] {
        var names: [String] = []
        try storage.forEachName(in: namespace, waitingForCommits: waitingForCommits) { names.append($0) }
        return names.sorted()
    }

    /// Returns the names in pages, too.
    func pages(
        of namespace: String = "namespace",
        maximum: Int = maximum,
        waitingForCommits: Bool = false
    ) throws -> [String: Record?] {
        var found: [String: Record?] = [:]
        try storage.forEachPage(of: namespace, maximum: maximum, waitingForCommits: waitingForCommits) {
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
    /// - Parameter call: What was called before.
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
