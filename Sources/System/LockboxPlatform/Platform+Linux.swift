// The base of every target: the C library, and of Foundation only what is small.
#if canImport(Glibc)
    @_exported public import Glibc
#elseif canImport(Musl)
    @_exported public import Musl
#endif

#if canImport(Glibc) || canImport(Musl)
    @_exported public import FoundationEssentials

    /// When the file's bytes were last changed.
    package func modificationTime(_ status: stat) -> timespec { status.st_mtim }

    /// How many descriptors the process may open, or nil if the system does not say.
    package var descriptorLimit: UInt64? {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
            ? UInt64(limit.rlim_cur) : nil
    }

    /// The folders of the process's own descriptors.
    package let descriptorFolders = ["/dev/fd", "/proc/self/fd"]

    /// An initial value for `pthread_create` to overwrite.
    package func noThread() -> pthread_t { pthread_t() }

    /// Writes a file's bytes to the drive.
    package func flushToDrive(_ descriptor: CInt) -> CInt { fsync(descriptor) }

    /// Nil. Executables have no bundle here, and an Info.plist that happens to be in their folder must not decide which items
    /// a program sees.
    package var bundleIdentifier: String? { nil }
#endif
