#if canImport(Darwin)
    package import LockboxCore
    import LockboxPlatform

    extension HomeFolder {
        /// Where apps keep this user's data.
        package static func userData(_ environment: Variables) throws(LockboxError) -> String {
            "\(try path(environment))/Library/Application Support"
        }

        /// `homeDirectoryForCurrentUser` is there on macOS only.
        static func ofAccount() throws(LockboxError) -> String { NSHomeDirectory() }
    }
#endif
