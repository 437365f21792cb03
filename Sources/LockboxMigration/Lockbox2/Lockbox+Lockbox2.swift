public import LockboxCore
public import LockboxPlatform

// Lockbox 2's methods, as Swift imports them from Objective-C, so that code which uses them goes on compiling. They store
// and read Lockbox 2's bytes, marked as such in the item: ``ValueFormat/lockbox2``.
//
// As in Lockbox 2, a result of false or nil does not say why. The setters refuse what Lockbox 2 would not have read
// back as it was: an element that holds `-|-`, or from which its neighbours would make one, and a date that is not finite.
// The old value is still there then. An empty collection removes the item, as it did from Lockbox 1.4.7 on. The
// getters read what ``Lockbox/migrate(_:dryRun:progress:)`` has made of the items, too.
extension Lockbox {
    /// Stores Lockbox 2's form of `value`; nil removes the item. False if that failed.
    ///
    /// - Parameters:
    ///   - value: What is to be stored.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    ///   - accessibility: When it is to be readable.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setString(
        _ value: String?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        setLegacy(value, key, accessibility) { $0 }
    }

    /// The text of a key. Nil if it is absent, locked, or anything else.
    ///
    /// - Parameter key: Not empty; at most 4,096 bytes of UTF-8.
    @available(*, deprecated, message: "Use unarchiveObject(String.self, forKey:), and migrate(_:) once.")
    public func string(forKey key: String) -> String? { legacy(key) { $0 } }

    /// Stores Lockbox 2's form of `value`; nil and an empty array remove the item. False if that failed.
    ///
    /// - Parameters:
    ///   - value: What is to be stored.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    ///   - accessibility: When it is to be readable.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setArray(
        _ value: [String]?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        setLegacy(value.nonEmpty, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// The texts of a key. Nil if it is absent, locked, or anything else.
    ///
    /// - Parameter key: Not empty; at most 4,096 bytes of UTF-8.
    @available(*, deprecated, message: "Use unarchiveObject([String].self, forKey:), and migrate(_:) once.")
    public func array(forKey key: String) -> [String]? { legacy(key, Lockbox2Text.array) }

    /// Stores Lockbox 2's form of `value`; nil and an empty set remove the item. False if that failed.
    ///
    /// - Parameters:
    ///   - value: What is to be stored.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    ///   - accessibility: When it is to be readable.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setSet(
        _ value: Set<String>?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        setLegacy(value.nonEmpty, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// The texts of a key. Nil if it is absent, locked, or anything else.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject(Set<String>.self, forKey:), and migrate(_:) once."
    )
    public func set(forKey key: String) -> Set<String>? { legacy(key, Lockbox2Text.set) }

    /// Stores Lockbox 2's form of `value`; nil and an empty dictionary remove the item. False if that failed.
    ///
    /// - Parameters:
    ///   - value: What is to be stored.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    ///   - accessibility: When it is to be readable.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setDictionary(
        _ value: [String: String]?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        setLegacy(value.nonEmpty, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// The texts of a key. Nil if it is absent, locked, or anything else.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject([String: String].self, forKey:), and migrate(_:) once."
    )
    public func dictionary(forKey key: String) -> [String: String]? { legacy(key, Lockbox2Text.dictionary) }

    /// Stores Lockbox 2's form of `value`; nil removes the item. False if that failed.
    ///
    /// - Parameters:
    ///   - value: What is to be stored.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    ///   - accessibility: When it is to be readable.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setDate(_ value: Date?, forKey key: String, accessibility: Accessibility = .whenUnlocked)
        -> Bool
    {
        setLegacy(value, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// The date of a key. Nil if it is absent, locked, or anything else.
    ///
    /// - Parameter key: Not empty; at most 4,096 bytes of UTF-8.
    @available(*, deprecated, message: "Use unarchiveObject(Date.self, forKey:), and migrate(_:) once.")
    public func date(forKey key: String) -> Date? { legacy(key, Lockbox2Text.date) }

    private func setLegacy<Value>(
        _ value: Value?,
        _ key: String,
        _ accessibility: Accessibility,
        _ text: (Value) throws -> String
    ) -> Bool {
        do {
            guard let value else {
                try removeObject(forKey: key)
                return true
            }
            let item = try StoredItem(
                key: itemKey(key),
                value: ArchivedValue(data: Data(text(value).utf8), format: .lockbox2),
                accessibility: accessibility,
                modified: now()
            )
            try backend.write(item, policy: .replace)
            return true
        } catch { return false }
    }

    private func legacy<Value: Decodable>(_ key: String, _ decode: (String) throws -> Value) -> Value? {
        do {
            guard let value = try backend.value(for: itemKey(key), now: now()) else { return nil }
            if value.format == .lockbox2 { return try decode(Lockbox2Text.string(value.data)) }
            return try unarchive(Value.self, value, key)
        } catch { return nil }
    }
}

extension Optional where Wrapped: Collection {
    fileprivate var nonEmpty: Self { flatMap { $0.isEmpty ? nil : $0 } }
}
