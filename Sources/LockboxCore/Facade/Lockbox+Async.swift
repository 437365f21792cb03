import Dispatch
import LockboxPlatform

// The same calls for async code. The disk is waited for on a queue of their own, not in the cooperative pool;
// values are encoded and decoded by the caller, so they need not be Sendable.
extension Lockbox {
    /// As the method of the same name that is not async.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        policy: WritePolicy = .replace
    ) async throws {
        guard let value else { return try await removeObject(forKey: key) }
        let archived = try archive(value, key)
        try await offPool {
            let item = try StoredItem(
                key: $0.itemKey(key),
                value: archived,
                accessibility: accessibility,
                modified: $0.now(),
                expires: expires,
                label: label,
                comment: comment
            )
            try $0.backend.write(item, policy: policy)
        }
    }

    /// As the method of the same name that is not async.
    public func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        let archived = try await offPool { try $0.backend.value(for: $0.itemKey(key), now: $0.now()) }
        return try archived.map { try unarchive(type, $0, key) }
    }

    /// As the method of the same name that is not async.
    public func removeObject(forKey key: String) async throws {
        try await offPool { try $0.removeObject(forKey: key) }
    }

    /// As the method of the same name that is not async.
    public func containsObject(forKey key: String) async throws -> Bool {
        try await offPool { try $0.containsObject(forKey: key) }
    }

    /// As the method of the same name that is not async.
    public func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await offPool { try $0.attributes(forKey: key) }
    }

    /// As the method of the same name that is not async.
    public func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await offPool { try $0.setAccessibility(accessibility, forKey: key) }
    }

    /// As the method of the same name that is not async.
    public func allKeys() async throws -> Set<String> {
        try await offPool { try $0.allKeys() }
    }

    /// As the method of the same name that is not async.
    public func allAttributes() async throws -> [String: ItemAttributes] {
        try await offPool { try $0.allAttributes() }
    }

    /// As the method of the same name that is not async. `body` runs on another thread.
    public func forEachItem(
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await offPool { try $0.forEachItem(body) }
    }

    /// As the method of the same name that is not async.
    public func removeAllObjects() async throws {
        try await offPool { try $0.removeAllObjects() }
    }

    /// As the method of the same name that is not async.
    @discardableResult
    public func removeExpired() async throws -> Int {
        try await offPool { try $0.removeExpired() }
    }

    private static let queue = DispatchQueue(label: "lockbox", attributes: .concurrent)

    private func offPool<Result: Sendable>(
        _ work: @escaping @Sendable (Lockbox) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Self.queue.async { continuation.resume(with: Swift.Result { try work(self) }) }
        }
    }
}
