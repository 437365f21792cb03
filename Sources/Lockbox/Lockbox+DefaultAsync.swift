import LockboxCore
import LockboxPlatform

extension Lockbox {
    /// As the method of the same name that is not async.
    public static func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        policy: WritePolicy = .replace
    ) async throws {
        try await `default`.archiveObject(
            value,
            forKey: key,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            policy: policy
        )
    }

    /// As the method of the same name that is not async.
    public static func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        try await `default`.unarchiveObject(type, forKey: key)
    }

    /// As the method of the same name that is not async.
    public static func removeObject(forKey key: String) async throws {
        try await `default`.removeObject(forKey: key)
    }

    /// As the method of the same name that is not async.
    public static func containsObject(forKey key: String) async throws -> Bool {
        try await `default`.containsObject(forKey: key)
    }

    /// As the method of the same name that is not async.
    public static func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await `default`.attributes(forKey: key)
    }

    /// As the method of the same name that is not async.
    public static func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await `default`.setAccessibility(accessibility, forKey: key)
    }

    /// As the method of the same name that is not async.
    public static func allKeys() async throws -> Set<String> {
        try await `default`.allKeys()
    }

    /// As the method of the same name that is not async.
    public static func allAttributes() async throws -> [String: ItemAttributes] {
        try await `default`.allAttributes()
    }

    /// As the method of the same name that is not async. `body` runs on another thread.
    public static func forEachItem(
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await `default`.forEachItem(body)
    }

    /// As the method of the same name that is not async.
    public static func removeAllObjects() async throws {
        try await `default`.removeAllObjects()
    }

    /// As the method of the same name that is not async.
    @discardableResult
    public static func removeExpired() async throws -> Int {
        try await `default`.removeExpired()
    }
}
