import LockboxCore
public import LockboxMigration

extension MigrationSource {
    /// The persistent entries of `UserDefaults`, which record their types. Registered defaults are not
    /// included.
    ///
    /// - Parameter suiteName: The name as in `UserDefaults(suiteName:)`. If `nil`, the standard defaults.
    public static func userDefaults(suiteName: String? = nil) -> MigrationSource {
        MigrationSource { _, _ in try DefaultsItems(suiteName: suiteName) }
    }
}
