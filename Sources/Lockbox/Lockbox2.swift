public import LockboxCore
public import LockboxPlatform

// Lockbox 2's methods, as Swift imports them from Objective-C, so that existing code continues to compile. They
// store and read Lockbox 2's encodings, with the format ``ValueFormat/lockbox2``.
//
// A result of false or nil does not say why, which is Lockbox 2's way. A nil that a getter has returned for an item that could not
// be read removes nothing: `archiveObject` and these setters refuse it. The setters refuse values that Lockbox 2 would
// not have read back unchanged: elements that contain `-|-`, or that form one with their neighbors, and dates
// that are not finite. The old value is then kept. An empty collection removes the item, as in
// Lockbox 1.4.7 and later. The getters also read items that `migrate(_:)` has converted.
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
            let archived = try value.map { try ArchivedValue(data: Data(text($0).utf8), format: .lockbox2) }
            try perform(operation(archived, key, options: WriteOptions(accessibility: accessibility)))
            return true
        } catch { return false }
    }

    private func lockbox2Value<Value: Decodable>(_ key: String, _ decode: (String) throws -> Value) -> Value?
    {
        do {
            guard let value = try backend.value(for: itemKey(key), now: now()) else { return nil }
            if value.format == .lockbox2 { return try decode(Lockbox2Text.string(value.data)) }
            return try unarchive(Value.self, value, key: key)
        } catch {
            if let key = try? itemKey(key) { UnknownAnswers.add(key, of: self) }
            return nil
        }
    }
}

extension Optional where Wrapped: Collection {
    fileprivate var nonEmpty: Self { flatMap { $0.isEmpty ? nil : $0 } }
}

// Lockbox 2's methods on the `default` lockbox.
extension Lockbox {
    /// Stores a string in the ``default`` lockbox in Lockbox 2's format. `nil` removes the item. Returns
    /// whether it succeeded.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setString(
        _ value: String?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        (try? `default`)?.setString(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// Returns a string from the ``default`` lockbox, or `nil` if it is absent, locked or unreadable.
    @available(*, deprecated, message: "Use unarchiveObject(String.self, forKey:), and migrate(_:) once.")
    public static func string(forKey key: String) -> String? { (try? `default`)?.string(forKey: key) }

    /// Stores an array in the ``default`` lockbox in Lockbox 2's format. `nil` or an empty array removes the
    /// item. Returns whether it succeeded.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setArray(
        _ value: [String]?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        (try? `default`)?.setArray(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// Returns an array of strings from the ``default`` lockbox, or `nil` if it is absent, locked or
    /// unreadable.
    @available(*, deprecated, message: "Use unarchiveObject([String].self, forKey:), and migrate(_:) once.")
    public static func array(forKey key: String) -> [String]? { (try? `default`)?.array(forKey: key) }

    /// Stores a set in the ``default`` lockbox in Lockbox 2's format. `nil` or an empty set removes the item.
    /// Returns whether it succeeded.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setSet(
        _ value: Set<String>?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        (try? `default`)?.setSet(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// Returns a set of strings from the ``default`` lockbox, or `nil` if it is absent, locked or unreadable.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject(Set<String>.self, forKey:), and migrate(_:) once."
    )
    public static func set(forKey key: String) -> Set<String>? { (try? `default`)?.set(forKey: key) }

    /// Stores a dictionary in the ``default`` lockbox in Lockbox 2's format. `nil` or an empty dictionary
    /// removes the item. Returns whether it succeeded.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setDictionary(
        _ value: [String: String]?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        (try? `default`)?.setDictionary(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// Returns a dictionary from the ``default`` lockbox, or `nil` if it is absent, locked or unreadable.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject([String: String].self, forKey:), and migrate(_:) once."
    )
    public static func dictionary(forKey key: String) -> [String: String]? {
        (try? `default`)?.dictionary(forKey: key)
    }

    /// Stores a date in the ``default`` lockbox in Lockbox 2's format. `nil` removes the item. Returns whether
    /// it succeeded.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setDate(
        _ value: Date?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) -> Bool {
        (try? `default`)?.setDate(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// Returns a date from the ``default`` lockbox, or `nil` if it is absent, locked or unreadable.
    @available(*, deprecated, message: "Use unarchiveObject(Date.self, forKey:), and migrate(_:) once.")
    public static func date(forKey key: String) -> Date? { (try? `default`)?.date(forKey: key) }
}

/// The items for which a Lockbox 2 getter has returned nil without knowing that there are none.
///
/// Such a nil may be archived later, on another thread, or when the store is unlocked again. So it is never forgotten.
package enum UnknownAnswers {
    private static let places = ProcessWide { Protected<[ItemKey: [Place]]>([:]) }

    /// Where an item is.
    private struct Place: @unchecked Sendable {
        // Unchecked: the object is only compared.
        /// The backend, or nil if it is a value. Weak, because another object may have its address later.
        weak var backend: AnyObject?
        let isValue: Bool
        let location: String?

        init(_ key: ItemKey, _ lockbox: Lockbox) {
            isValue = !lockbox.hasBackendWithIdentity
            backend = isValue ? nil : lockbox.backend as AnyObject
            location = lockbox.location(of: key)
        }

        /// Values of the same kind count as the same: to refuse a removal loses nothing.
        func mayBe(_ other: Place) -> Bool {
            if let location, let other = other.location { return location == other }
            return isValue ? other.isValue : backend != nil && backend === other.backend
        }
    }

    package static func add(_ key: ItemKey, of lockbox: Lockbox) {
        let place = Place(key, lockbox)
        places.value.withLock { places in
            if places[key]?.contains(where: place.mayBe) != true { places[key, default: []].append(place) }
        }
    }

    /// - Throws: ``LockboxError/invalidKey(reason:)`` if nil may be the answer of such a getter.
    static func check(_ key: ItemKey, of lockbox: Lockbox) throws(LockboxError) {
        let known = places.value.withLock { $0[key] ?? [] }
        if known.isEmpty { return }
        let place = Place(key, lockbox)
        guard known.contains(where: place.mayBe) else { return }
        let key = String(reflecting: key.key)
        throw .invalidKey(
            reason:
                "nil did not remove the item \(key), because a method of Lockbox 2 has returned nil for it although it "
                + "could not be read; read it with unarchiveObject, or remove it with removeObject"
        )
    }
}
