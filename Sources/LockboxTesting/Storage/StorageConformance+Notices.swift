import LockboxCore
import LockboxPlatform
import LockboxSealed

/// Requirements for storages that report changes.
extension StorageConformance {
    static let notices = StorageConformance(
        "changes of a namespace's records are reported until the subscription ends"
    ) { subject in
        guard let storage = subject.storage as? any NotifyingStorage else { return }
        for name in ["replaced", "gone"] { try subject.put(subject.record(name), subject.bytes()) }
        let changed = ["new", "replaced", "one of two", "two of two"]
        let bytes = Dictionary(uniqueKeysWithValues: changed.map { ($0, subject.bytes()) })
        let notices = Notices(subject, bytes)
        guard
            let cancel = try subject.ifSupported({ try storage.subscribe(to: "namespace", notices.receive) })
        else { return }
        try subject.put(subject.record("elsewhere", in: "other"), subject.bytes())
        for name in changed[..<2] { try subject.put(subject.record(name), bytes[name] ?? []) }
        let together = changed[2...].map { RecordChange.put(subject.record($0), bytes[$0] ?? []) }
        try subject.commit(together)
        try notices.wait(for: Set(changed))
        try subject.commit([.remove(subject.record("gone"))])
        try notices.wait(for: ["gone"])
        try subject.expect(
            !notices.names.contains("elsewhere"),
            "a change of the record elsewhere was reported, which is in another namespace"
        )
        cancel()
        cancel()
        try subject.expectNoReport({ notices.count }) {
            try subject.put(subject.record("late"), subject.bytes())
        }
    }

    static let noticesEndFromWithin = StorageConformance("a subscription can be ended by what it reports to")
    { subject in
        guard let storage = subject.storage as? any NotifyingStorage else { return }
        try subject.checkEndFromWithin(
            { report in
                try subject.ifSupported { try storage.subscribe(to: "namespace") { _ in report() } }
            },
            { try subject.put(subject.record("record"), subject.bytes()) }
        )
    }
}

/// What a subscription has reported.
private final class Notices: Sendable {
    private let subject: StorageSubject
    /// The bytes of each changed record. All others are removed.
    private let bytes: [String: [UInt8]]
    private let seen = Protected<(names: Set<String>, count: Int, failure: (any Error)?)>(([], 0, nil))

    init(_ subject: StorageSubject, _ bytes: [String: [UInt8]]) {
        self.subject = subject
        self.bytes = bytes
    }

    var count: Int { seen.withLock { $0.count } }
    var names: Set<String> { seen.withLock { $0.names } }

    /// A change counts if it can be read by then. After an overflow, everything has changed.
    func receive(_ notice: Result<RecordNotice, any Error>) {
        if seen.withLock({ $0.failure != nil }) { return }
        let changed: Set<String>
        switch notice {
        case .success(.records(let names)): changed = names
        case .success(.everything): changed = Set(bytes.keys).union(["gone"])
        case .failure: changed = []
        }
        let look = Result {
            // On another thread, as a storage may report under a lock that must not be taken twice.
            try subject.expectReturn(
                "a read did not return during a report; a lock is held while changes are reported"
            ) {
                let visible = try changed.filter {
                    try self.subject.read(self.subject.record($0))?.bytes == self.bytes[$0]
                }
                self.seen.withLock { $0.names.formUnion(visible) }
            }
        }
        seen.withLock { seen in
            seen.count += 1
            if case .failure(let error) = look { seen.failure = error }
        }
    }

    func wait(for names: Set<String>) throws {
        try subject.wait(
            "changes of \(names.sorted()) were made, and only \(self.names.sorted()) reported after they could be read"
        ) { self.names.isSuperset(of: names) || seen.withLock { $0.failure != nil } }
        if let failure = seen.withLock({ $0.failure }) { throw failure }
    }
}
