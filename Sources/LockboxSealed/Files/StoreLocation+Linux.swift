#if canImport(Glibc) || canImport(Musl)
    import LockboxPlatform

    extension StoreLocation {
        /// Where apps keep this user's data.
        static func userData(_ environment: (String) -> String?) -> String {
            // The XDG specification says to ignore a relative path.
            if let data = environment("XDG_DATA_HOME"), data.hasPrefix("/") { return data }
            let home = environment("HOME") ?? FileManager.default.homeDirectoryForCurrentUser.path
            return "\(home)/.local/share"
        }
    }
#endif
