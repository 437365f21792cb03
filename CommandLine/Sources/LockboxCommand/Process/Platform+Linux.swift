#if canImport(Glibc)
    @_exported import Glibc
#elseif canImport(Musl)
    @_exported import Musl
#endif

#if canImport(Glibc) || canImport(Musl)
    /// The signals that only this system ignores by default.
    let silentSignals: [CInt] = []

    /// Swift reads the arguments from there.
    var canReadArguments: Bool { access("/proc/self/cmdline", F_OK) == 0 }

    /// The path of this executable, without symbolic links.
    var ownPath: String? { realPath("/proc/self/exe") }

    /// Folders that are usually in memory, for all users.
    let memoryFolders = ["/dev/shm"]
#endif
