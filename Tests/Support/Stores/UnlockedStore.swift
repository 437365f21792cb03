import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// LockboxTestProcess has the same.
let testPrefix = "com.example.process"

extension LockboxBackend {
    func lockbox(_ prefix: String = testPrefix, now: @escaping @Sendable () -> Date = { Date() })
        throws(LockboxError) -> Lockbox
    {
        try Lockbox(keyPrefix: prefix, backend: self, now: now)
    }

    /// Of every prefix, expired ones included.
    func allItems() throws -> Set<StoredItem> {
        let now: Date? = nil
        return Set(
            try prefixes().flatMap { prefix in
                try attributes(prefix: prefix, now: now).keys.map {
                    try #require(try item(for: $0, now: now))
                }
            }
        )
    }
}

/// An unlocked store: where a test begins whose subject is not how a passcode is set.
extension SealedBackend {
    /// Sets a passcode, adds a recovery code, and stores items with the value "old".
    ///
    /// - Parameters:
    ///   - passcode: Nil for a store without one.
    ///   - items: Their keys and classes.
    ///   - scope: `.user` also unlocks the store for all processes of the user.
    @discardableResult
    func setUp(
        passcode: String? = "1234",
        recovery code: RecoveryCode? = nil,
        items: [String: Accessibility] = [:],
        scope: UnlockScope = .process
    ) throws -> SealedBackend {
        if let passcode { try setPasscode(.value(passcode), strength: .interactive) }
        if let code { try addRecoveryCode(code, confirmation: .value(code.text)) }
        let lockbox = try lockbox()
        for (key, accessibility) in items.sorted(by: { $0.key < $1.key }) {
            try lockbox.archiveObject("old", forKey: key, accessibility: accessibility)
        }
        if scope == .user, let passcode {
            try #require(try unlock(.value(passcode), scope: .user) == .user)
        }
        return self
    }

    /// The classes of `.everyClass` that can be read. The others are locked, and nothing else.
    func readable() throws -> Set<Accessibility> {
        let lockbox = try lockbox()
        return Set(
            try Accessibility.allCases.filter { accessibility in
                do {
                    return try lockbox.unarchiveObject(String.self, forKey: accessibility.rawValue) == "old"
                } catch LockboxError.interactionNotAllowed { return false }
            }
        )
    }
}

extension [String: Accessibility] {
    /// An item of each class, whose key is the class's raw value.
    static var everyClass: Self {
        Dictionary(uniqueKeysWithValues: Accessibility.allCases.map { ($0.rawValue, $0) })
    }
}

extension Set<Accessibility> {
    static var everyClass: Self { Set(Accessibility.allCases) }
    /// Readable before the first unlock.
    static var always: Self { [.always, .alwaysThisDeviceOnly] }
    /// Readable after a lock, if the store was unlocked before.
    static var afterFirstUnlock: Self {
        always.union([.afterFirstUnlock, .afterFirstUnlockThisDeviceOnly])
    }
}
