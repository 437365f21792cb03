#if canImport(Darwin)
    @_exported import Darwin

    var canReadArguments: Bool { true }

    /// The signals that only this system ignores by default.
    let silentSignals = [SIGINFO, SIGIO]

    /// The path of this executable, without symbolic links.
    var ownPath: String? {
        var size = UInt32(PATH_MAX)
        var buffer = [CChar](repeating: 0, count: Int(size))
        return _NSGetExecutablePath(&buffer, &size) == 0 ? realPath(buffer) : nil
    }

    /// Folders that are usually in memory, for all users.
    let memoryFolders: [String] = []
#endif
