#if canImport(Darwin)
    package import LockboxCore
    import LockboxPlatform

    extension HomeFolder {
        /// Where apps keep this user's data.
        package static func userData(_ environment: Variables) throws(LockboxError) -> String {
            "\(try path(environment))/Library/Application Support"
        }

        /// Where programs keep what they remember of this user. Not among the stores.
        static func userState(_ environment: Variables) throws(LockboxError) -> String {
            if let state = try environment("XDG_STATE_HOME"), Path.isAbsolute(state) { return state }
            return "\(try userData(environment))/Lockbox State"
        }

        /// `homeDirectoryForCurrentUser` is there on macOS only.
        static func ofAccount() throws(LockboxError) -> String { NSHomeDirectory() }
    }
#endif
