#if canImport(Darwin)
    extension StoreLocation {
        /// Where apps keep this user's data.
        static func userData(_ environment: (String) -> String?) -> String {
            "\(home(environment))/Library/Application Support"
        }
    }
#endif
