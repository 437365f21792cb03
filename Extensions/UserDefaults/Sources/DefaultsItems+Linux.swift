#if canImport(Glibc) || canImport(Musl)
    extension DefaultsItems {
        /// The name under which the standard defaults are stored.
        static var standardDomain: String { "kCFPreferencesCurrentApplication" }
    }
#endif
