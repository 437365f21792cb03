#if canImport(Darwin)
    // The base of every target: the C library and Foundation.
    @_exported public import Darwin
    @_exported public import Foundation

    /// When the file's contents were last modified.
    package func modificationTime(_ status: stat) -> timespec { status.st_mtimespec }

    /// Sets when the file was last changed.
    package func setTimes(_ status: inout stat, _ time: timespec) {
        (status.st_mtimespec, status.st_ctimespec) = (time, time)
    }

    /// How many descriptors the process may open, or nil if the system does not say.
    var systemDescriptorLimit: UInt64? {
        var limit = rlimit()
        return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? UInt64(limit.rlim_cur) : nil
    }

    /// The folders of the process's own descriptors.
    package let descriptorFolders = ["/dev/fd"]

    /// Overwrites bytes that are not read again.
    func wipe(_ bytes: UnsafeMutableRawBufferPointer) {
        if let start = bytes.baseAddress { memset_s(start, bytes.count, 0, bytes.count) }
    }

    /// An initial value for `pthread_create` to overwrite.
    func noThread() -> pthread_t? { nil }

    /// Makes a condition.
    package func initialize(_ condition: UnsafeMutablePointer<pthread_cond_t>) {
        pthread_cond_init(condition, nil)
    }

    /// Waits for a condition, and no longer than that time. May also return without reason.
    func waitForCondition(
        _ condition: UnsafeMutablePointer<pthread_cond_t>,
        _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
        atMost time: timespec
    ) {
        withUnsafePointer(to: time) { _ = pthread_cond_timedwait_relative_np(condition, mutex, $0) }
    }

    /// Opens a folder through which others may be opened.
    package let openForSearch = O_RDONLY

    /// Writes a file's bytes to the drive. `fsync` alone leaves them in the drive's cache.
    func flushToDrive(_ descriptor: CInt) -> CInt {
        fcntl(descriptor, F_FULLFSYNC) == 0 ? 0 : fsync(descriptor)
    }

    /// The identifier of the app's bundle.
    package var bundleIdentifier: String? { Bundle.main.bundleIdentifier }
#endif
