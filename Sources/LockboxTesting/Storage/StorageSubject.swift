import LockboxCore
import LockboxPlatform
import LockboxSealed

/// The storage under test, with helpers for the checks.
final class StorageSubject: Sendable {
    private let storages: [any RecordStorage]
    private let count = Protected(0)
    let requirement: String

    static let maximum = 1 << 22

    init(storages: [any RecordStorage], requirement: String) {
        self.storages = storages
        self.requirement = requirement
    }

    /// If there are several instances, a different one each time.
    var storage: any RecordStorage {
        count.withLock { count in
            count += 1
            return storages[count % storages.count]
        }
    }

    func expect(_ condition: @autoclosure () throws -> Bool, _ finding: @autoclosure () -> String) throws {
        guard try condition() else { throw ConformanceFailure(requirement: requirement, finding: finding()) }
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
        try expect(isThere == (found != nil), "read returned \(isThere), but the closure says otherwise")
        return found
    }

    func names(in namespace: String = "namespace", waitingForCommits: Bool = false) throws -> [String] {
        var names: [String] = []
        try storage.forEachName(in: namespace, waitingForCommits: waitingForCommits) { names.append($0) }
        return names.sorted()
    }

    func put(_ record: RecordName, _ bytes: [UInt8]) throws {
        try expect(isCommitted([.put(record, bytes)]), "a commit that expects nothing is a conflict")
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
}
