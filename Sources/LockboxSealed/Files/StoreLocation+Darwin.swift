#if canImport(Darwin)
    import LockboxPlatform

    extension StoreLocation {
        /// Where apps keep this user's data.
        static func userData(_ environment: (String) -> String?) -> String {
            // `homeDirectoryForCurrentUser` is there on macOS only.
            "\(environment("HOME") ?? NSHomeDirectory())/Library/Application Support"
        }
    }
#endif
