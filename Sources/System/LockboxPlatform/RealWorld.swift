import CLinux

/// The system.
package final class RealWorld: World {
    package static let shared = RealWorld()

    private let begin = (continuous: ContinuousClock.now, suspending: SuspendingClock.now)

    private init() {}

    // MARK: Files

    package func open(_ path: String, at directory: CInt, _ flags: CInt, mode: mode_t) -> Int {
        // An implicit conversion to a pointer would copy the path.
        path.withCString { errnoIfNegative(openat(directory, $0, flags, mode)) }
    }

    package func mkdir(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        errnoIfNegative(mkdirat(directory, path, mode))
    }

    package func fstat(_ file: CInt, _ status: inout stat) -> Int {
        errnoIfNegative(systemStatus(file, &status))
    }

    package func stat(_ path: String, at directory: CInt, _ status: inout stat, followingLinks: Bool) -> Int {
        path.withCString {
            errnoIfNegative(fstatat(directory, $0, &status, followingLinks ? 0 : AT_SYMLINK_NOFOLLOW))
        }
    }

    package func access(_ path: String, _ mode: CInt) -> Int {
        errnoIfNegative(faccessat(AT_FDCWD, path, mode, AT_EACCESS))
    }

    package func read(_ file: CInt, into buffer: UnsafeMutableRawBufferPointer, at offset: Int?) -> Int {
        guard let offset else { return errnoIfNegative(systemRead(file, buffer)) }
        return errnoIfNegative(pread(file, buffer.baseAddress, buffer.count, off_t(offset)))
    }

    package func write(_ file: CInt, _ bytes: UnsafeRawBufferPointer, at offset: Int?) -> Int {
        guard let offset else { return errnoIfNegative(systemWrite(file, bytes)) }
        return errnoIfNegative(pwrite(file, bytes.baseAddress, bytes.count, off_t(offset)))
    }

    package func seek(_ file: CInt, to offset: Int?) -> Int {
        errnoIfNegative(lseek(file, off_t(offset ?? 0), offset == nil ? SEEK_CUR : SEEK_SET))
    }

    package func truncate(_ file: CInt, to length: Int) -> Int {
        errnoIfNegative(ftruncate(file, off_t(length)))
    }

    package func synchronize(_ file: CInt) -> Int { errnoIfNegative(flushToDrive(file)) }

    package func duplicate(_ file: CInt) -> Int { errnoIfNegative(fcntl(file, F_DUPFD_CLOEXEC, 0)) }

    package func close(_ file: CInt) -> Int { errnoIfNegative(systemClose(file)) }

    package func rename(_ old: String, at oldDirectory: CInt, to new: String, at newDirectory: CInt) -> Int {
        errnoIfNegative(renameat(oldDirectory, old, newDirectory, new))
    }

    package func unlink(_ path: String, at directory: CInt, isFolder: Bool) -> Int {
        errnoIfNegative(unlinkat(directory, path, isFolder ? AT_REMOVEDIR : 0))
    }

    package func readLink(_ path: String, at directory: CInt, _ target: inout [UInt8]) -> Int {
        withUnsafeTemporaryAllocation(byteCount: Int(PATH_MAX), alignment: 1) { buffer in
            let length = readlinkat(directory, path, buffer.baseAddress!, buffer.count)
            if length > 0 { target += buffer[..<length] }
            return errnoIfNegative(length)
        }
    }

    package func chmod(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        errnoIfNegative(fchmodat(directory, path, mode, AT_SYMLINK_NOFOLLOW))
    }

    package func chmod(_ file: CInt, mode: mode_t) -> Int { errnoIfNegative(fchmod(file, mode)) }

    package func chown(_ file: CInt, user: uid_t, group: gid_t) -> Int {
        errnoIfNegative(fchown(file, user, group))
    }

    package func lock(_ file: CInt, _ operation: CInt) -> Int { errnoIfNegative(flock(file, operation)) }

    package func setWaiting(_ isWaiting: Bool, _ file: CInt) { file_set_waiting(file, isWaiting ? 1 : 0) }

    package func isWaitedFor(_ file: CInt) -> Bool { file_is_waited_for(file) != 0 }

    package func forEachName(in directory: CInt, _ body: (UnsafeRawBufferPointer) -> Void) -> Int {
        guard let stream = fdopendir(directory) else {
            let code = errno
            _ = systemClose(directory)
            return -Int(code)
        }
        defer { closedir(stream) }
        errno = 0
        while let entry = readdir(stream) {
            withUnsafeBytes(of: &entry.pointee.d_name) {
                body(UnsafeRawBufferPointer(rebasing: $0.prefix { $0 != 0 }))
            }
            errno = 0
        }
        return -Int(errno)
    }

    package func isOnFUSE(_ file: CInt) -> Bool { file_is_on_fuse(file) != 0 }

    package func hasAccessControlList(_ file: CInt) -> Bool { has_access_control_list(file) != 0 }

    package func isTerminal(_ file: CInt) -> Bool { isatty(file) == 1 }

    package func waitForInput(_ file: CInt, atMost time: Duration) -> Int {
        // poll(2) would wait for a closed descriptor.
        if fcntl(file, F_GETFD) < 0 { return -Int(errno) }
        var request = pollfd(fd: file, events: Int16(POLLIN), revents: 0)
        let (seconds, attoseconds) = time.components
        let milliseconds = max(0, seconds * 1000 + attoseconds / 1_000_000_000_000_000)
        return errnoIfNegative(poll(&request, 1, CInt(clamping: milliseconds)))
    }

    package func resolved(_ path: String, _ error: inout CInt) -> [UInt8]? {
        Self.taken(realpath(path, nil), &error)
    }

    package func currentFolder(_ error: inout CInt) -> [UInt8]? { Self.taken(getcwd(nil, 0), &error) }

    private static func taken(_ text: UnsafeMutablePointer<CChar>?, _ error: inout CInt) -> [UInt8]? {
        guard let text else {
            error = errno
            return nil
        }
        defer { free(text) }
        return Array(UnsafeRawBufferPointer(start: text, count: strlen(text)))
    }

    // MARK: Watches

    package func openWatch() -> Int { folder_watch_open() }

    package func openStop() -> Int { folder_watch_open_stop() }

    package func stop(_ stop: CInt) { folder_watch_stop(stop) }

    package func addWatch(_ watch: CInt, _ path: String) -> Int { folder_watch_add(watch, path) }

    package func readWatch(_ watch: CInt, _ stop: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        folder_watch_read(watch, stop, buffer.baseAddress, buffer.count)
    }

    // MARK: The kernel's keyring

    package func addKey(_ name: String, length: Int) -> Int {
        kernel_key_add(name, [UInt8](repeating: 0, count: length), length)
    }

    package func findKey(_ name: String) -> Int { kernel_key_search(name) }

    package func readKey(_ key: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        kernel_key_read(key, buffer.baseAddress, buffer.count)
    }

    package func updateKey(_ key: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        kernel_key_update(key, bytes.baseAddress, bytes.count)
    }

    package func setKeyPermissions(_ key: Int32, _ permissions: UInt32) -> Int {
        kernel_key_set_permissions(key, permissions)
    }

    package func setKeyTimeout(_ key: Int32, seconds: UInt32) -> Int { kernel_key_set_timeout(key, seconds) }

    package func publishKey(_ key: Int32) -> Int { kernel_key_publish(key) }

    package func withdrawKey(_ key: Int32) -> Int { kernel_key_withdraw(key) }

    package func revokeKey(_ key: Int32) -> Int { kernel_key_revoke(key) }

    package func unlinkKey(_ key: Int32) -> Int { kernel_key_unlink(key) }

    package func lockKeys() -> Int { kernel_key_lock() }

    // MARK: Clocks

    package var date: Date { Date() }

    package var uptime: Duration { .now - begin.continuous }

    package var awakeTime: Duration { .now - begin.suspending }

    package func sleep(_ time: Duration) { usleep(useconds_t(max(0, time / .microseconds(1)))) }

    package func pause(_ time: Duration) async throws { try await Task.sleep(for: time) }

    // MARK: Threads

    package var givesEachTaskAThread: Bool { false }

    package func detach(_ body: @escaping @Sendable () -> Void) -> CInt {
        final class Body: Sendable {
            let run: @Sendable () -> Void
            init(_ run: @escaping @Sendable () -> Void) { self.run = run }
        }
        var thread = noThread()
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
        let body = Unmanaged.passRetained(Body(body))
        let result = pthread_create(
            &thread,
            &attributes,
            { argument in
                let body: UnsafeMutableRawPointer? = argument  // optional on some systems only
                Unmanaged<Body>.fromOpaque(body!).takeRetainedValue().run()
                return nil
            },
            body.toOpaque()
        )
        pthread_attr_destroy(&attributes)
        if result != 0 { body.release() }
        return result
    }

    package func waitForMutex(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) { pthread_mutex_lock(mutex) }

    package func wait(
        for condition: UnsafeMutablePointer<pthread_cond_t>,
        _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
        atMost time: Duration
    ) {
        let (seconds, attoseconds) = time.components
        let time = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
        waitForCondition(condition, mutex, atMost: time)
    }

    // MARK: The process

    package func own(_ key: ObjectIdentifier, _ make: () -> AnyObject) -> AnyObject? { nil }
    package var randomNumber: UInt64 { .random(in: .min ... .max) }

    package func variable(_ name: String) -> [UInt8]? {
        guard let value = trusted_environment(name) else { return nil }
        return Array(UnsafeRawBufferPointer(start: value, count: strlen(value)))
    }

    package var user: uid_t { geteuid() }

    package var group: gid_t { getegid() }

    package var processors: Int { sysconf(CInt(_SC_NPROCESSORS_ONLN)) }

    package var descriptorLimit: UInt64? { systemDescriptorLimit }
}

// Under names that the methods above do not hide.
private func systemStatus(_ file: CInt, _ status: inout stat) -> CInt { fstat(file, &status) }
private func systemRead(_ file: CInt, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
    read(file, buffer.baseAddress, buffer.count)
}
private func systemWrite(_ file: CInt, _ bytes: UnsafeRawBufferPointer) -> Int {
    write(file, bytes.baseAddress, bytes.count)
}
private func systemClose(_ file: CInt) -> CInt { close(file) }

/// Returns the result of a call of the C library, or `-errno`.
private func errnoIfNegative(_ result: some SignedInteger) -> Int {
    let code = errno  // before anything that might change it
    return result < 0 ? -Int(code) : Int(result)
}
