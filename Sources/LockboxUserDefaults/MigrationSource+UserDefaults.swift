import LockboxCore
public import LockboxMigration

extension MigrationSource {
    /// Entries of `UserDefaults`, whose values say their types; not those that are only registered.
    ///
    /// - Parameter suiteName: As in `UserDefaults(suiteName:)`; nil for the standard defaults.
    public static func userDefaults(suiteName: String? = nil) -> MigrationSource {
        MigrationSource { _, _ in try DefaultsItems(suiteName: suiteName) }
    }
}
