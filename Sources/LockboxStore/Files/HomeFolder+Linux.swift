#if canImport(Glibc) || canImport(Musl)
    package import LockboxCore
    import LockboxPlatform

    extension HomeFolder {
        /// Where apps keep this user's data.
        package static func userData(_ environment: Variables) throws(LockboxError) -> String {
            // The XDG specification says to ignore a relative path.
            if let data = try environment("XDG_DATA_HOME"), Path.isAbsolute(data) { return data }
            return "\(try path(environment))/.local/share"
        }

        /// In a static program, the C library's own functions load plug-ins, and may crash.
        static func ofAccount() throws(LockboxError) -> String { try ofUser(geteuid(), in: "/etc/passwd") }
    }
#endif
