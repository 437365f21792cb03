#if canImport(Glibc)
    @_exported import Glibc

    extension sigaction {
        /// Whether the process ignores the signal.
        var isIgnored: Bool {
            unsafeBitCast(__sigaction_handler.sa_handler, to: Int.self)
                == unsafeBitCast(SIG_IGN, to: Int.self)
        }
    }
#endif
