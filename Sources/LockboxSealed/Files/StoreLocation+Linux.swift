#if canImport(Glibc) || canImport(Musl)
    extension StoreLocation {
        /// Where apps keep this user's data.
        static func userData(_ environment: (String) -> String?) -> String {
            // The XDG specification says to ignore a relative path.
            if let data = environment("XDG_DATA_HOME"), data.hasPrefix("/") { return data }
            return "\(home(environment))/.local/share"
        }
    }
#endif
