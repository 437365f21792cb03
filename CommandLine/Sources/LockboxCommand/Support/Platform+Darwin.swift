#if canImport(Darwin)
    @_exported import Darwin
    @_exported import LockboxUserDefaults

    extension sigaction {
        /// Whether the process ignores the signal.
        var isIgnored: Bool {
            unsafeBitCast(__sigaction_u.__sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
        }
    }
#endif
