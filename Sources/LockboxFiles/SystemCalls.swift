import LockboxCore
package import LockboxPlatform

/// The system calls that Lockbox makes on files, one method each, so that a test can make any one of them fail.
///
/// Results are the kernel's: a negative one is `-errno`. Interrupted calls are made again.
package struct SystemCalls: Sendable {
    package enum Call: String, Sendable {
        case open, mkdir, fstat, stat, read, write, fsync, close, rename, unlink, chmod, flock, readdir
    }

    package enum Fault: Sendable {
        /// The call fails with this `errno`, and does nothing.
        case failure(CInt)
        /// A read or write does only half of what it was asked.
        case partial
    }

    /// Asked before every call.
    package var fault: (@Sendable (Call) -> Fault?)?

    package init(fault: (@Sendable (Call) -> Fault?)? = nil) { self.fault = fault }

    package static let currentDirectory: CInt = AT_FDCWD

    package func open(_ path: String, at directory: CInt, _ flags: CInt, mode: mode_t = 0) -> Int {
        perform(.open) {
            Int(openat(directory, path, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, mode))
        }
    }

    package func mkdir(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        perform(.mkdir) { Int(mkdirat(directory, path, mode)) }
    }

    package func fstat(_ descriptor: CInt, _ status: inout stat) -> Int {
        perform(.fstat) { Int(LockboxPlatform.fstat(descriptor, &status)) }
    }

    /// Does not follow a symbolic link.
    package func stat(_ path: String, at directory: CInt, _ status: inout stat) -> Int {
        perform(.stat) { Int(fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW)) }
    }

    package func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        perform(.read, of: buffer.count) { LockboxPlatform.read(descriptor, buffer.baseAddress, $0) }
    }

    package func write(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer) -> Int {
        perform(.write, of: bytes.count) { LockboxPlatform.write(descriptor, bytes.baseAddress, $0) }
    }

    /// From that position on, whatever the descriptor's own is.
    package func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
        perform(.read) { pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset)) }
    }

    /// To that position, whatever the descriptor's own is.
    package func write(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        perform(.write) { pwrite(descriptor, bytes.baseAddress, bytes.count, off_t(offset)) }
    }

    package func fsync(_ descriptor: CInt) -> Int {
        perform(.fsync) { Int(flushToDrive(descriptor)) }
    }

    @discardableResult
    package func close(_ descriptor: CInt) -> Int {
        let injected = fault?(.close)
        // Linux and Darwin have closed it also where they report an error: closing again may hit another file.
        var code = LockboxPlatform.close(descriptor) == 0 ? 0 : errno
        if case .failure(let other) = injected { code = other }
        return code == EINTR ? 0 : -Int(code)
    }

    package func rename(_ old: String, at oldDirectory: CInt, to new: String, at newDirectory: CInt) -> Int {
        perform(.rename) { Int(renameat(oldDirectory, old, newDirectory, new)) }
    }

    package func unlink(_ path: String, at directory: CInt) -> Int {
        perform(.unlink) { Int(unlinkat(directory, path, 0)) }
    }

    package func chmod(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        perform(.chmod) { Int(fchmodat(directory, path, mode, 0)) }
    }

    package func chmod(_ descriptor: CInt, mode: mode_t) -> Int {
        perform(.chmod) { Int(fchmod(descriptor, mode)) }
    }

    /// Without waiting: -EWOULDBLOCK if another holds the lock.
    package func lock(_ descriptor: CInt) -> Int {
        perform(.flock) { Int(flock(descriptor, LOCK_EX | LOCK_NB)) }
    }

    /// Waits for the lock, as long as it takes. The kernel serves those who wait in the order of their coming.
    package func waitForLock(_ descriptor: CInt) -> Int {
        perform(.flock) { Int(flock(descriptor, LOCK_EX)) }
    }

    /// Not among the calls that can be made to fail: nothing depends on it but who waits.
    package func unlock(_ descriptor: CInt) { _ = flock(descriptor, LOCK_UN) }

    /// Appends the names in a directory but for `.` and `..`. Takes the descriptor over.
    package func names(in descriptor: CInt, _ names: inout NameList) -> Int {
        if case .failure(let code) = fault?(.readdir), code != EINTR {
            LockboxPlatform.close(descriptor)
            return -Int(code)
        }
        guard let stream = fdopendir(descriptor) else {
            let code = errno
            LockboxPlatform.close(descriptor)
            return -Int(code)
        }
        defer { closedir(stream) }
        errno = 0
        while let entry = readdir(stream) {
            withUnsafeBytes(of: &entry.pointee.d_name) { names.append($0.prefix { $0 != 0 }) }
            errno = 0
        }
        return -Int(errno)
    }

    private func perform(_ call: Call, _ body: () -> Int) -> Int {
        perform(call, of: 0) { _ in body() }
    }

    private func perform(_ call: Call, of count: Int, _ body: (Int) -> Int) -> Int {
        while true {
            var count = count
            switch fault?(call) {
            case .failure(EINTR): continue
            case .failure(let code): return -Int(code)
            case .partial: count = (count + 1) / 2
            case nil: break
            }
            let result = body(count)
            if result >= 0 { return result }
            let code = errno
            if code != EINTR { return -Int(code) }
        }
    }
}

extension SystemCalls {
    /// Fills the buffer, or as much of it as the file has; returns how much that is.
    package func readAll(
        _ file: CInt,
        into buffer: UnsafeMutableRawBufferPointer,
        path: @autoclosure () -> String
    )
        throws
        -> Int
    {
        var offset = 0
        while offset < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[offset...])
            let count = try check(read(file, into: rest), "read", path())
            if count == 0 { break }
            offset += count
        }
        return offset
    }

    package func writeAll(_ bytes: UnsafeRawBufferPointer, to file: CInt, path: @autoclosure () -> String)
        throws
    {
        var offset = 0
        while offset < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
            offset += try check(write(file, rest), "write", path())
        }
    }
}
