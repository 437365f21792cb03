#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

#if canImport(Glibc) || canImport(Musl)
    /// When the file's bytes were last changed.
    package func modificationTime(_ status: stat) -> timespec { status.st_mtim }

    /// How many descriptors the process may have open; nil if the system does not say.
    package var descriptorLimit: UInt64? {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
            ? UInt64(limit.rlim_cur) : nil
    }

    /// For `pthread_create` to write to.
    package func noThread() -> pthread_t { pthread_t() }
#endif
