import Dispatch
import LockboxCore
import LockboxPlatform

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

    func text(_ key: ItemKey, at now: Date? = Self.now) throws -> String? {
        try backend.value(for: key, now: now).map { String(decoding: $0.data, as: UTF8.self) }
    }

    func keys(prefix: String = Self.prefix, at now: Date? = Self.now) throws -> Set<String> {
        Set(try backend.attributes(prefix: prefix, now: now).keys.map(\.key))
    }

    /// Expects a value.
    ///
    /// - Parameter call: What was called before.
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
