#if canImport(Darwin)
    import Lockbox
    import LockboxUserDefaults

    extension MigrationSource {
        /// The `UserDefaults` of another program.
        ///
        /// - Parameter suiteName: The name as in `UserDefaults(suiteName:)`.
        static func otherDefaults(suiteName: String) -> MigrationSource {
            .userDefaults(suiteName: suiteName)
        }
    }
#endif
