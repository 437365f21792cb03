import Foundation
import Lockbox

/// The backend under test, with short names for what the checks do all the time.
struct Subject: Sendable {
    let backend: any LockboxBackend
    let requirement: String

    /// The instant at which the checks write unless they say another.
    static let now = Date(timeIntervalSinceReferenceDate: 800_000_000.125)
    static let prefix = "com.example.conformance"

    func expect(_ condition: @autoclosure () throws -> Bool, _ finding: @autoclosure () -> String) throws {
        guard try condition() else { throw ConformanceFailure(requirement: requirement, finding: finding()) }
    }

    func expectError(
        _ name: String,
        from work: () throws -> Void,
        _ isExpected: (LockboxError) -> Bool
    ) throws {
        do { try work() } catch let error as LockboxError where isExpected(error) {
            return
        } catch {
            throw ConformanceFailure(requirement: requirement, finding: "\(error) instead of \(name)")
        }
        throw ConformanceFailure(requirement: requirement, finding: "no error instead of \(name)")
    }

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

    func text(_ key: ItemKey, at now: Date = Self.now) throws -> String? {
        try backend.value(for: key, now: now).map { String(decoding: $0.data, as: UTF8.self) }
    }

    func keys(prefix: String = Self.prefix, at now: Date = Self.now) throws -> Set<String> {
        Set(try backend.attributes(prefix: prefix, now: now).keys.map(\.key))
    }
}
