import Dispatch
@_spi(Extensions) public import LockboxCore
import LockboxPlatform

/// A requirement of the `LockboxBackend` contract, which a backend can be checked against.
///
/// With Swift Testing:
///
/// ```swift
/// @Test(arguments: BackendConformance.all)
/// func conforms(_ requirement: BackendConformance) throws {
///     try requirement.check { MyBackend() }
/// }
/// ```
///
/// With any other test library, call `try BackendConformance.checkAll { MyBackend() }` in one test.
///
/// The checks do not depend on the current date. Three of them wait for some tenths of a second to see that nothing happens.
public struct BackendConformance: Sendable, CustomStringConvertible {
    /// Makes a stored item unreadable: see ``check(within:damage:_:)``.
    public typealias Damage = @Sendable (_ backend: any LockboxBackend, _ key: ItemKey) throws -> Void

    /// The requirement in a few words.
    public let description: String

    private let requirement: @Sendable (_ subject: Subject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ subject: Subject) throws -> Void) {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one backend against this requirement. A backend that refuses what a requirement is about with
    /// `LockboxError.notSupported`, such as `lockState`, passes.
    ///
    /// - Parameters:
    ///   - limit: The time limit. A check that exceeds it fails, and its thread is abandoned.
    ///   - damage: Makes an item of the backend unreadable, with its attributes, for example by overwriting its bytes. If `nil`,
    ///     what becomes of such items is not checked.
    ///   - makeBackend: Returns an empty backend.
    /// - Throws: ``ConformanceFailure``, or the error of `makeBackend`.
    public func check(
        within limit: Duration = .seconds(120),
        damage: Damage? = nil,
        _ makeBackend: () throws -> any LockboxBackend
    ) throws {
        let subject = Subject(
            backend: try makeBackend(),
            requirement: description,
            patience: limit / 4,
            damage: damage
        )
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each with a new backend.
    ///
    /// - Parameters:
    ///   - limit: The time limit for each check.
    ///   - damage: Makes an item of the backend unreadable: see ``check(within:damage:_:)``.
    ///   - makeBackend: Returns an empty backend. Called for each requirement.
    /// - Throws: ``ConformanceFailure`` for the first requirement that is not met, or the error of `makeBackend`.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        damage: Damage? = nil,
        _ makeBackend: () throws -> any LockboxBackend
    ) throws {
        for requirement in all { try requirement.check(within: limit, damage: damage, makeBackend) }
    }
}

extension BackendConformance {
    /// All requirements.
    public static let all: [BackendConformance] = [
        absentIsNil, roundTrip, sizes, tooLarge, wholeItem, severalValues,
        replaceKeepsCreated, addOnly, updateOnly, failedWrite, batch, moving, oppositeMoves, copying,
        expiry, expiryDestroysNothing, policiesAndExpiry, removeExpired,
        removal, removeAll, keyEquality, oddKeys, prefixes, reservedPrefixes, lists,
        classes, changeOfClass, keepsWhatIsNotNamed, expiryBelongsToTheValue, changesOfAttributes, searchable,
        update, updateAcrossPrefixes, updateIsOneStep, manyThreads,
        damagedItems, repair, lockState, verification, locations, synchronization, changes,
        changesEndFromWithin,
    ]

    static let absentIsNil = BackendConformance("an absent item is nil and can be removed") { subject in
        let (backend, key) = (subject.backend, try subject.key("missing"))
        try subject.expect(
            backend.value(for: key, now: Subject.now) == nil,
            "value(for:now:) returned a value"
        )
        try subject.expect(backend.item(for: key, now: Subject.now) == nil, "item(for:now:) returned an item")
        try subject.expect(
            backend.attributes(for: key, now: Subject.now) == nil,
            "attributes(for:now:) returned attributes"
        )
        try subject.expect(
            subject.keys().isEmpty,
            "attributes(prefix:now:) returned items of an empty backend"
        )
        try subject.expect(backend.prefixes().isEmpty, "prefixes() returned prefixes of an empty backend")
        try backend.remove(key)
        try backend.removeAll(prefix: Subject.prefix)
        let count = try backend.removeExpired(prefix: Subject.prefix, now: Subject.now)
        try subject.expect(count == 0, "removeExpired(prefix:now:) returned \(count) for an empty backend")
    }

    static let roundTrip = BackendConformance("an item is read exactly as it was written") { subject in
        let item = try StoredItem(
            key: subject.key("key"),
            value: ArchivedValue(data: Data((0...255).map { UInt8($0) }), format: ValueFormat(rawValue: 200)),
            accessibility: .afterFirstUnlock,
            created: Date(timeIntervalSinceReferenceDate: -1e9 / 3),
            modified: Date(timeIntervalSinceReferenceDate: 0.1 + 0.2),
            expires: Date(timeIntervalSinceReferenceDate: 1e9 / 3),
            label: "Läbel 🔑",
            comment: ""
        )
        try subject.write(item)
        let now = Subject.now - 1e9
        try subject.expect(
            subject.backend.value(for: item.key, now: now) == item.value,
            "value(for:now:) returned another value than was written"
        )
        let attributes = try subject.backend.attributes(for: item.key, now: now)
        try subject.expect(
            attributes == item.attributes,
            "attributes(for:now:) returned \(text(attributes)), not \(item.attributes)"
        )
        let all = try subject.backend.attributes(prefix: Subject.prefix, now: now)
        try subject.expect(
            all == [item.key: item.attributes],
            "attributes(prefix:now:) returned \(all), not \([item.key: item.attributes])"
        )
    }

    static let sizes = BackendConformance("values of every size up to the limit are stored") { subject in
        let key = try subject.key("key")
        let limit = subject.backend.maximumValueSize
        let limits = 65_537...ArchivedValue.maximumSize
        try subject.expect(limits.contains(limit), "maximumValueSize is \(limit), which is not in \(limits)")
        for size in [0, 1, 255, 256, 257, 4096, 65_537, limit] {
            let value = try ArchivedValue(
                data: Data(repeating: UInt8(size & 0xFF), count: size),
                format: .data
            )
            try subject.write(StoredItem(key: key, value: value, modified: Subject.now))
            try subject.expect(
                subject.backend.value(for: key, now: Subject.now) == value,
                "value(for:now:) returned another value than the \(size) bytes that were written"
            )
            let found = try subject.backend.attributes(for: key, now: Subject.now)?.size
            try subject.expect(
                found == size,
                "attributes(for:now:) returned the size \(text(found)) for \(size) bytes"
            )
        }
    }

    static let tooLarge = BackendConformance("a value that is too large for the backend is refused") {
        subject in
        let key = try subject.key("key")
        try subject.write(subject.item(key, "old"))
        let size = ArchivedValue.maximumSize
        let limit = subject.backend.maximumValueSize
        if limit == size { return }
        let large = try ArchivedValue(data: Data(count: size), format: .data)
        try subject.expectError(.valueTooLarge(size: size, limit: limit), from: "a write of \(size) bytes") {
            try subject.write(StoredItem(key: key, value: large, modified: Subject.now))
        }
        try subject.expect(key, is: "old", after: "the write that was refused")
    }

    static let wholeItem = BackendConformance("an item is read with value and attributes") { subject in
        let item = try subject.item(subject.key("key"))
        try subject.write(item)
        try subject.expect(item, after: "a write")
    }

    static let severalValues = BackendConformance("several values are read in one call") { subject in
        for name in ["one", "two"] { try subject.write(subject.item(subject.key(name), name)) }
        try subject.write(subject.item(subject.key("gone"), expires: Subject.now))
        let keys = try ["one", "two", "gone", "missing"].map { try subject.key($0) }
        let found = try subject.backend.values(for: keys, now: Subject.now)
        let names = found.keys.map(\.key).sorted()
        try subject.expect(
            names == ["one", "two"],
            "values(for:now:) returned values of \(names), and two of four items have not expired: one, two"
        )
        for key in keys[..<2] {
            try subject.expect(
                found[key] == subject.backend.value(for: key, now: Subject.now),
                "values(for:now:) returned another value of \(key.key) than value(for:now:)"
            )
        }
    }
}

/// The backend under test, with helpers for the checks.
struct Subject: ConformanceSubject {
    let backend: any LockboxBackend
    let requirement: String
    let patience: Duration
    let damage: BackendConformance.Damage?

    /// The time at which the checks write unless they specify another.
    static let now = Date(timeIntervalSinceReferenceDate: 800_000_000.125)
    static let prefix = "com.example.conformance"

    func key(_ key: String, prefix: String = Self.prefix) throws -> ItemKey {
        try ItemKey(prefix: prefix, key: key)
    }

    func item(
        _ key: ItemKey,
        _ text: String = "value",
        at now: Date = Self.now,
        expires: Date? = nil,
        accessibility: Accessibility = .whenUnlocked
    ) throws -> StoredItem {
        try StoredItem(
            key: key,
            value: ArchivedValue(data: Data(text.utf8), format: .data),
            accessibility: accessibility,
            modified: now,
            expires: expires
        )
    }

    func write(_ item: StoredItem, _ policy: WritePolicy = .replace) throws {
        try backend.write(item, policy: policy)
    }

    func write(_ changes: ItemChanges, to key: ItemKey, _ policy: WritePolicy = .replace) throws {
        var changes = changes
        changes.options.policy = policy
        try backend.write(changes, to: key)
    }

    func text(_ key: ItemKey, at now: Date? = Self.now) throws -> String? {
        try backend.value(for: key, now: now).map { String(decoding: $0.data, as: UTF8.self) }
    }

    func keys(prefix: String = Self.prefix, at now: Date? = Self.now) throws -> Set<String> {
        Set(try backend.attributes(prefix: prefix, now: now).keys.map(\.key))
    }

    /// Expects a value.
    ///
    /// - Parameter call: The call made before.
    func expect(_ key: ItemKey, is expected: String?, at now: Date? = Self.now, after call: String) throws {
        let found = try text(key, at: now)
        try expect(
            found == expected,
            "after \(call), \(key.key) has the value \(quoted(found)), not \(quoted(expected))"
        )
    }

    /// Expects a whole item.
    func expect(_ expected: StoredItem, at now: Date? = Self.now, after call: String) throws {
        let found = try backend.item(for: expected.key, now: now)
        try expect(
            found == expected,
            "after \(call), item(for:now:) returned \(LockboxTesting.text(found)), not \(expected)"
        )
    }

    /// Expects the keys of a prefix.
    func expectKeys(
        _ expected: Set<String>,
        prefix: String = Self.prefix,
        at now: Date? = Self.now,
        after call: String
    ) throws {
        let found = try keys(prefix: prefix, at: now)
        try expect(
            found == expected,
            "after \(call), attributes(prefix:now:) returned the keys \(found.sorted()), not \(expected.sorted())"
        )
    }

    /// Appends text to an item's value in one update.
    ///
    /// - Parameter meanwhile: Runs after the item has been read and before it is written.
    func append(_ text: String, to key: ItemKey, _ meanwhile: () throws -> Void = {}) throws {
        try backend.update(key, now: Self.now) { old in
            let before = old.map { String(decoding: $0.value.data, as: UTF8.self) } ?? ""
            try meanwhile()
            return try item(key, before + text)
        }
    }

    /// Makes another call while an update, which appends "a" to the item "0", is between its read and its
    /// write. The two calls must take effect one after the other.
    ///
    /// - Parameters:
    ///   - name: The other call, in a few words.
    ///   - expected: The possible values afterwards.
    ///   - call: The other call. It has time to finish too early, which it must not.
    func interruptUpdate(
        _ name: String,
        expecting expected: Set<String?>,
        _ call: @escaping @Sendable (ItemKey) throws -> Void
    )
        throws
    {
        let key = try key(name)
        try write(item(key, "0"))
        let error = Protected<(any Error)?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        var isRunning = false
        try append("a", to: key) {
            if isRunning { return }  // it may be called again
            isRunning = true
            try detachThread {
                do { try call(key) } catch let failure { error.withLock { $0 = failure } }
                isDone.signal()
            }
            if isDone.wait(timeout: .now() + 0.1) == .success { isDone.signal() }
        }
        isDone.wait()
        if let error = error.withLock({ $0 }) { throw error }
        let found = try text(key)
        try expect(
            expected.contains(found),
            "\(name) took effect between the read and the write of an update: the value is \(quoted(found))"
        )
    }
}

func quoted(_ text: String?) -> String { text.map { String(reflecting: $0) } ?? "nil" }
