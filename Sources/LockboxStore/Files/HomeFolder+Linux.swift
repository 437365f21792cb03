#if canImport(Glibc) || canImport(Musl)
    package import LockboxCore
    import LockboxPlatform

    extension HomeFolder {
        /// Where apps keep this user's data.
        package static func userData(_ environment: Variables) throws(LockboxError) -> String {
            // The XDG specification says to ignore a relative path.
            if let data = try environment("XDG_DATA_HOME"), Path.isAbsolute(data) {
                try Path.checkIsWrittenOut(data)
                return data
            }
            return "\(try path(environment))/.local/share"
        }

        /// Where programs keep what they remember of this user.
        static func userState(_ environment: Variables) throws(LockboxError) -> String {
            if let state = try environment("XDG_STATE_HOME"), Path.isAbsolute(state) { return state }
            return "\(try path(environment))/.local/state"
        }

        /// In a static program, the C library's own functions load plug-ins, and may crash.
        static func ofAccount() throws(LockboxError) -> String { try ofUser(world.user, in: "/etc/passwd") }
    }
#endif
