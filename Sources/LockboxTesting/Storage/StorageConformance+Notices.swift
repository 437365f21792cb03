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
        guard let cancel = try subscribe(storage, { notices.receive($0) }) else { return }
        try subject.put(subject.record("elsewhere", in: "other"), subject.bytes())
        for name in changed[..<2] { try subject.put(subject.record(name), bytes[name] ?? []) }
        let together = changed[2...].map { RecordChange.put(subject.record($0), bytes[$0] ?? []) }
        try subject.expect(subject.isCommitted(together), "a conflict")
        try notices.wait(for: Set(changed))
        try subject.expect(subject.isCommitted([.remove(subject.record("gone"))]), "a conflict")
        try notices.wait(for: ["gone"])
        try subject.expect(!notices.names.contains("elsewhere"), "a change of another namespace was reported")
        cancel()
        cancel()
        try notices.expectNoneAfter { try subject.put(subject.record("late"), subject.bytes()) }
    }

    static let noticesEndFromWithin = StorageConformance("a subscription can be ended by what it reports to")
    {
        subject in
        guard let storage = subject.storage as? any NotifyingStorage else { return }
        let cancel = Protected<(@Sendable () -> Void)?>(nil)
        let notices = Notices(subject, [:])
        let subscription = try subscribe(storage) { notice in
            notices.receive(notice)
            cancel.withLock { $0 }?()
        }
        guard let subscription else { return }
        cancel.withLock { $0 = subscription }
        try subject.put(subject.record("first"), subject.bytes())
        try notices.waitForAny()
        try notices.expectNoneAfter { try subject.put(subject.record("second"), subject.bytes()) }
    }

    /// Returns nil if the storage cannot tell here.
    private static func subscribe(
        _ storage: any NotifyingStorage,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws -> (@Sendable () -> Void)? {
        do { return try storage.subscribe(to: "namespace", report) } catch let error as LockboxError
            where error.code == .notSupported
        {
            return nil
        }
    }
}

/// What a subscription has reported.
private final class Notices: Sendable {
    private let subject: StorageSubject
    /// The bytes of each changed record. All others are removed.
    private let bytes: [String: [UInt8]]
    private let seen = Protected<(names: Set<String>, count: Int)>(([], 0))

    init(_ subject: StorageSubject, _ bytes: [String: [UInt8]]) {
        self.subject = subject
        self.bytes = bytes
    }

    var names: Set<String> { seen.withLock { $0.names } }

    /// A change counts if it can be read by then. After an overflow, everything has changed.
    func receive(_ notice: Result<RecordNotice, any Error>) {
        let changed: Set<String>
        switch notice {
        case .success(.records(let names)): changed = names
        case .success(.everything): changed = Set(bytes.keys).union(["gone"])
        case .failure: changed = []
        }
        let visible = changed.filter {
            (try? subject.read(subject.record($0)))?.bytes == bytes[$0]
        }
        seen.withLock { seen in
            seen.names.formUnion(visible)
            seen.count += 1
        }
    }

    func wait(for names: Set<String>) throws {
        try wait("no change of \(names.sorted()) was reported after it could be read") {
            $0.names.isSuperset(of: names)
        }
    }

    func waitForAny() throws { try wait("nothing was reported") { $0.count > 0 } }

    private func wait(_ finding: String, until isDone: ((names: Set<String>, count: Int)) -> Bool) throws {
        let deadline = ContinuousClock.now + .seconds(10)
        while !seen.withLock({ isDone($0) }), ContinuousClock.now < deadline { usleep(1000) }
        try subject.expect(seen.withLock { isDone($0) }, finding)
    }

    func expectNoneAfter(_ change: () throws -> Void) throws {
        // One that began before may still be on its way.
        usleep(100_000)
        let count = seen.withLock { $0.count }
        try change()
        usleep(100_000)
        try subject.expect(seen.withLock { $0.count } == count, "a change after the end was reported")
    }
}
