public import LockboxCore
public import LockboxPlatform

// Lockbox 2's methods, as Swift imports them from Objective-C, so that existing code continues to compile. They
// store and read Lockbox 2's encodings, with the format ``ValueFormat/lockbox2``.
//
// As in Lockbox 2, a result of false or nil does not say why. A nil that a getter has returned for an item that could not
// be read removes nothing: `archiveObject` and these setters refuse it. The setters refuse values that Lockbox 2 would
// not have read back unchanged: elements that contain `-|-`, or that form one with their neighbors, and dates
// that are not finite. The old value is then kept. As in Lockbox 1.4.7 and later, an empty collection removes
// the item. The getters also read items that `migrate(_:)` has converted.
extension Lockbox {
    /// Stores a string in Lockbox 2's format. `nil` removes the item, if it can be read. Returns whether it
    /// succeeded.
    ///
    /// - Parameters:
    ///   - value: The string.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setString(
        _ value: String?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        setLockbox2Value(value, key, accessibility) { $0 }
    }

    /// Returns a string, or `nil` if it is absent, locked or unreadable.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    @available(*, deprecated, message: "Use unarchiveObject(String.self, forKey:), and migrate(_:) once.")
    public func string(forKey key: String) -> String? { lockbox2Value(key) { $0 } }

    /// Stores an array in Lockbox 2's format. `nil` or an empty array removes the item, if it can be
    /// read. Returns whether it succeeded. An element that contains the delimiter `-|-` is refused, and the old value is kept.
    ///
    /// - Parameters:
    ///   - value: The array.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setArray(
        _ value: [String]?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        setLockbox2Value(value.nonEmpty, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// Returns an array of strings, or `nil` if it is absent, locked or unreadable.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    @available(*, deprecated, message: "Use unarchiveObject([String].self, forKey:), and migrate(_:) once.")
    public func array(forKey key: String) -> [String]? { lockbox2Value(key, Lockbox2Text.array) }

    /// Stores a set in Lockbox 2's format. `nil` or an empty set removes the item, if it can be
    /// read. Returns whether it succeeded. An element that contains the delimiter `-|-` is refused, and the old value is kept.
    ///
    /// - Parameters:
    ///   - value: The set.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setSet(
        _ value: Set<String>?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        setLockbox2Value(value.nonEmpty, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// Returns a set of strings, or `nil` if it is absent, locked or unreadable.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject(Set<String>.self, forKey:), and migrate(_:) once."
    )
    public func set(forKey key: String) -> Set<String>? { lockbox2Value(key, Lockbox2Text.set) }

    /// Stores a dictionary in Lockbox 2's format. `nil` or an empty dictionary removes the item, if it
    /// can be read. Returns whether it succeeded. A key or value that contains the delimiter `-|-` is refused; the old value is kept.
    ///
    /// - Parameters:
    ///   - value: The dictionary.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setDictionary(
        _ value: [String: String]?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        setLockbox2Value(value.nonEmpty, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// Returns a dictionary, or `nil` if it is absent, locked or unreadable.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject([String: String].self, forKey:), and migrate(_:) once."
    )
    public func dictionary(forKey key: String) -> [String: String]? {
        lockbox2Value(key, Lockbox2Text.dictionary)
    }

    /// Stores a date in Lockbox 2's format. `nil` removes the item, if it can be read. Returns whether it
    /// succeeded.
    ///
    /// - Parameters:
    ///   - value: The date.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public func setDate(_ value: Date?, forKey key: String, accessibility: Accessibility? = nil)
        -> Bool
    {
        setLockbox2Value(value, key, accessibility) { try Lockbox2Text.text($0) }
    }

    /// Returns a date, or `nil` if it is absent, locked or unreadable.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    @available(*, deprecated, message: "Use unarchiveObject(Date.self, forKey:), and migrate(_:) once.")
    public func date(forKey key: String) -> Date? { lockbox2Value(key, Lockbox2Text.date) }

    private func setLockbox2Value<Value>(
        _ value: Value?,
        _ key: String,
        _ accessibility: Accessibility?,
        _ text: (Value) throws -> String
    ) -> Bool {
        do {
            guard let value else {
                try removeByNil(key)
                return true
            }
            let changes = ItemChanges(
                value: try ArchivedValue(data: Data(text(value).utf8), format: .lockbox2),
                accessibility: accessibility,
                modified: now()
            )
            try changing().write(changes, to: itemKey(key), policy: .replace)
            return true
        } catch { return false }
    }

    private func lockbox2Value<Value: Decodable>(_ key: String, _ decode: (String) throws -> Value) -> Value?
    {
        do {
            guard let value = try backend.value(for: itemKey(key), now: now()) else { return nil }
            if value.format == .lockbox2 { return try decode(Lockbox2Text.string(value.data)) }
            return try unarchive(Value.self, value, key)
        } catch {
            if let key = try? itemKey(key) { UnknownAnswers.add(key, of: self) }
            return nil
        }
    }
}

extension Optional where Wrapped: Collection {
    fileprivate var nonEmpty: Self { flatMap { $0.isEmpty ? nil : $0 } }
}
