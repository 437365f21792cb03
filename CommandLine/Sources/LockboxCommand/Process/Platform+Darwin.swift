#if canImport(Darwin)
    @_exported import Darwin

    extension sigaction {
        /// Whether the process ignores the signal.
        var isIgnored: Bool {
            unsafeBitCast(__sigaction_u.__sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
        }
    }

    var canReadArguments: Bool { true }

    /// The path of this executable, without symbolic links.
    let ownPath: String? = {
        var size = UInt32(PATH_MAX)
        var buffer = [CChar](repeating: 0, count: Int(size))
        guard _NSGetExecutablePath(&buffer, &size) == 0, let path = realpath(buffer, nil) else { return nil }
        defer { free(path) }
        return String(validatingCString: path)
    }()
#endif
