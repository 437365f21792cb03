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

    /// Sets when the file was last changed.
    package func setTimes(_ status: inout stat, _ time: timespec) {
        (status.st_mtim, status.st_ctim) = (time, time)
    }

    /// How many descriptors the process may open, or nil if the system does not say.
    var systemDescriptorLimit: UInt64? {
        var limit = rlimit()
        return getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
            ? UInt64(limit.rlim_cur) : nil
    }

    /// The folders of the process's own descriptors.
    package let descriptorFolders = ["/dev/fd", "/proc/self/fd"]

    /// Overwrites bytes that are not read again.
    func wipe(_ bytes: UnsafeMutableRawBufferPointer) {
        if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
    }

    /// An initial value for `pthread_create` to overwrite.
    func noThread() -> pthread_t { pthread_t() }

    /// Makes a condition whose waits are by a clock that is never set.
    package func initialize(_ condition: UnsafeMutablePointer<pthread_cond_t>) {
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    /// Waits for a condition, and no longer than that time. May also return without reason.
    func waitForCondition(
        _ condition: UnsafeMutablePointer<pthread_cond_t>,
        _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
        atMost time: timespec
    ) {
        var end = timespec()
        clock_gettime(CLOCK_MONOTONIC, &end)
        end.tv_sec += time.tv_sec
        end.tv_nsec += time.tv_nsec
        if end.tv_nsec >= 1_000_000_000 {
            (end.tv_sec, end.tv_nsec) = (end.tv_sec + 1, end.tv_nsec - 1_000_000_000)
        }
        pthread_cond_timedwait(condition, mutex, &end)
    }

    /// `O_PATH`, which some headers show to GNU programs only: opens a folder through which others may be opened, and needs no
    /// permission to read it.
    package let openForSearch: CInt = 0o10_000_000

    /// Writes a file's bytes to the drive.
    func flushToDrive(_ descriptor: CInt) -> CInt { fsync(descriptor) }

    /// Nil. Executables have no bundle here, and an Info.plist that happens to be in their folder must not decide which items
    /// a program sees.
    package var bundleIdentifier: String? { nil }
#endif
