#if canImport(Darwin)
    import Darwin

    /// When the file's bytes were last changed.
    package func modificationTime(_ status: stat) -> timespec { status.st_mtimespec }

    /// How many descriptors the process may have open; nil if the system does not say.
    package var descriptorLimit: UInt64? {
        var limit = rlimit()
        return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? UInt64(limit.rlim_cur) : nil
    }

    /// For `pthread_create` to write to.
    package func noThread() -> pthread_t? { nil }
#endif
