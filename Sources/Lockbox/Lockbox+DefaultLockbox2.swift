public import LockboxCore
import LockboxMigration
public import LockboxPlatform

// The same on the `default`.
extension Lockbox {
    /// Stores Lockbox 2's form of `value` in the ``default``; nil removes the item. False if that failed.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setString(
        _ value: String?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        (try? `default`)?.setString(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// The text of a key of the ``default``. Nil if it is absent, locked, or anything else.
    @available(*, deprecated, message: "Use unarchiveObject(String.self, forKey:), and migrate(_:) once.")
    public static func string(forKey key: String) -> String? { (try? `default`)?.string(forKey: key) }

    /// Stores Lockbox 2's form of `value` in the ``default``; nil and an empty array remove the item. False if that failed.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setArray(
        _ value: [String]?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        (try? `default`)?.setArray(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// The texts of a key of the ``default``. Nil if it is absent, locked, or anything else.
    @available(*, deprecated, message: "Use unarchiveObject([String].self, forKey:), and migrate(_:) once.")
    public static func array(forKey key: String) -> [String]? { (try? `default`)?.array(forKey: key) }

    /// Stores Lockbox 2's form of `value` in the ``default``; nil and an empty set remove the item. False if that failed.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setSet(
        _ value: Set<String>?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        (try? `default`)?.setSet(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// The texts of a key of the ``default``. Nil if it is absent, locked, or anything else.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject(Set<String>.self, forKey:), and migrate(_:) once."
    )
    public static func set(forKey key: String) -> Set<String>? { (try? `default`)?.set(forKey: key) }

    /// Stores Lockbox 2's form of `value` in the ``default``; nil and an empty dictionary remove the item. False if that
    /// failed.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setDictionary(
        _ value: [String: String]?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        (try? `default`)?.setDictionary(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// The texts of a key of the ``default``. Nil if it is absent, locked, or anything else.
    @available(
        *,
        deprecated,
        message: "Use unarchiveObject([String: String].self, forKey:), and migrate(_:) once."
    )
    public static func dictionary(forKey key: String) -> [String: String]? {
        (try? `default`)?.dictionary(forKey: key)
    }

    /// Stores Lockbox 2's form of `value` in the ``default``; nil removes the item. False if that failed.
    @available(*, deprecated, message: "Use archiveObject(_:forKey:accessibility:), and migrate(_:) once.")
    @discardableResult
    public static func setDate(
        _ value: Date?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked
    ) -> Bool {
        (try? `default`)?.setDate(value, forKey: key, accessibility: accessibility) ?? false
    }

    /// The date of a key of the ``default``. Nil if it is absent, locked, or anything else.
    @available(*, deprecated, message: "Use unarchiveObject(Date.self, forKey:), and migrate(_:) once.")
    public static func date(forKey key: String) -> Date? { (try? `default`)?.date(forKey: key) }
}
