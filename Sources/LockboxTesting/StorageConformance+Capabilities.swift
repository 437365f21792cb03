import Dispatch
@_spi(Extensions) import LockboxCore
import LockboxPlatform
import LockboxStore

/// Optional: not every storage can do it.
extension StorageConformance {
    static let cleanFindings = StorageConformance(
        "there are no findings in a storage that only commits have changed"
    ) {
        subject in
        guard let storage = subject.storage as? any InspectedStorage else { return }
        func check(after call: String) throws {
            let findings = try storage.findings()
            try subject.expect(findings.isEmpty, "after \(call), findings() returned \(findings)")
        }
        try check(after: "nothing")
        // Lockbox has no records of other names outside the namespaces.
        for record in [subject.record("record"), subject.record("keybag", in: nil)] {
            try subject.put(record, subject.bytes())
        }
        try check(after: "commits")
        try subject.commit([.remove(subject.record("record"))])
        try check(after: "a removal")
    }

    static let quarantine = StorageConformance("a record that is set aside is absent") { subject in
        let (record, kept) = (subject.record("record"), subject.record("kept"))
        let (bytes, call) = (subject.bytes(), "quarantine(_:)")
        for name in [record, kept] { try subject.put(name, bytes) }
        guard let lock = try lock(subject) as? any QuarantiningLock else { return }
        defer { lock.release() }
        let location = try lock.quarantine(record)
        try subject.expect(!location.isEmpty, "\(call) did not say where the bytes are now")
        try subject.expect(record, is: nil, after: call)
        try subject.expectNames(["kept"], after: call)
        try subject.expect(kept, is: bytes, after: "\(call) of another record")
        try subject.expectError(.missing, from: "\(call) of an absent record") {
            _ = try lock.quarantine(record)
        }
        lock.release()
        try subject.expectError(.conflict, from: "\(call) under a lock that was released") {
            _ = try lock.quarantine(kept)
        }
    }
}

/// Requirements for storages that have locks.
extension StorageConformance {
    static let locks = StorageConformance("no other commit gets past a lock") { subject in
        let record = subject.record("record")
        guard let lock = try lock(subject) else { return }
        let isDone = DispatchSemaphore(value: 0)
        try detachThread {
            _ = try? subject.isCommitted([.put(record, [1])])
            isDone.signal()
        }
        let isOvertaken = isDone.wait(timeout: .now() + 0.1) == .success
        let outcome = Result { try lock.commit([.put(record, [2])], expecting: [:]) }
        lock.release()
        if !isOvertaken { isDone.wait() }
        try subject.expect(!isOvertaken, "another commit did not wait for the lock of a namespace")
        guard case .committed = try outcome.get() else {
            throw subject.failure("the commit under a lock returned \(try outcome.get())")
        }
        try subject.expect(record, is: [1], after: "the commit that had waited for a lock")
    }

    static let lostLocks = StorageConformance(
        "a commit is a conflict under a lock that keeps no other commit out"
    ) { subject in
        let (record, bytes) = (subject.record("record"), subject.bytes())
        try subject.put(record, bytes)
        for isReleased in [true, false] {
            guard let lock = try lock(subject, of: isReleased ? "namespace" : "other") else { return }
            if isReleased { lock.release() }
            let outcome = try lock.commit([.put(record, [0])], expecting: [:])
            lock.release()
            let what = isReleased ? "a lock that was released" : "the lock of another namespace"
            guard case .conflict = outcome else {
                throw subject.failure("a commit under \(what) returned \(outcome)")
            }
            try subject.expect(record, is: bytes, after: "a conflict")
        }
    }

    static let lockEndsWithItsOwner = StorageConformance("a lock ends when it is released or deallocated") {
        subject in
        let record = subject.record("record")
        for isReleased in [true, false] {
            var held = try lock(subject)
            if held == nil { return }
            if isReleased { held?.release() } else { held = nil }
            let isDone = DispatchSemaphore(value: 0)
            try detachThread {
                _ = try? subject.isCommitted([.put(record, [1])])
                isDone.signal()
            }
            let ended = isDone.wait(timeout: .now() + subject.patience / .seconds(1)) == .success
            held?.release()
            try subject.expect(
                ended,
                "a commit waits for a lock that has been \(isReleased ? "released" : "deallocated")"
            )
        }
    }

    static let lookUpsDoNotWait = StorageConformance("looking up records waits for no lock") { subject in
        let (record, other) = (subject.record("record"), subject.record("other", in: nil))
        let bytes = subject.bytes()
        for record in [record, other] { try subject.put(record, bytes) }
        guard let held = try lock(subject) else { return }
        let outer = try lock(subject, of: nil)
        defer { for lock in [held, outer] { lock?.release() } }
        let calls: [(name: String, call: @Sendable () throws -> Void)] = [
            ("read(_:atLeast:maximum:_:)", { _ = try subject.read(record) }),
            ("read(_:atLeast:maximum:_:) outside the namespaces", { _ = try subject.read(other) }),
            ("read(_:maximum:)", { _ = try subject.storage.read([record, other], maximum: 100) }),
            ("forEachName, without waiting for commits,", { _ = try subject.names() }),
            ("forEachPage, without waiting for commits,", { _ = try subject.pages() }),
            ("namespaces()", { _ = try subject.storage.namespaces() }),
        ]
        for (name, call) in calls {
            try subject.expectReturn("\(name) did not return while a lock is held", call)
        }
    }

    /// Takes the lock of a namespace. Returns nil if there are no locks.
    private static func lock(_ subject: StorageSubject, of namespace: String? = "namespace") throws
        -> (any StorageLock)?
    {
        try (subject.storage as? any LockingStorage)?.lock([namespace])
    }
}

/// Requirements for storages that report changes.
extension StorageConformance {
    static let notices = StorageConformance(
        "changes of a namespace's records are reported until the subscription ends"
    ) { subject in
        guard let storage = subject.storage as? any WatchingStorage else { return }
        for name in ["replaced", "gone"] { try subject.put(subject.record(name), subject.bytes()) }
        let changed = ["new", "replaced", "one of two", "two of two"]
        let bytes = Dictionary(uniqueKeysWithValues: changed.map { ($0, subject.bytes()) })
        let notices = Notices(subject, bytes)
        guard
            let cancel = try LockboxError.ifSupported({
                try storage.subscribe(to: "namespace", notices.receive)
            })
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
        guard let storage = subject.storage as? any WatchingStorage else { return }
        try subject.checkEndFromWithin(
            { report in
                try LockboxError.ifSupported { try storage.subscribe(to: "namespace") { _ in report() } }
            },
            { try subject.put(subject.record("record"), subject.bytes()) }
        )
    }
}

/// The notices that a subscription has reported.
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
        let reading = Result {
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
            if case .failure(let error) = reading { seen.failure = error }
        }
    }

    func wait(for names: Set<String>) throws {
        try subject.wait(
            "changes of \(names.sorted()) were made, and only \(self.names.sorted()) reported after they could be read"
        ) { self.names.isSuperset(of: names) || seen.withLock { $0.failure != nil } }
        if let failure = seen.withLock({ $0.failure }) { throw failure }
    }
}
