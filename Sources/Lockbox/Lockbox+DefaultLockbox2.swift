public import LockboxCore
import LockboxMigration
public import LockboxPlatform

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
