package import LockboxCore
package import LockboxPlatform

/// The system calls that Lockbox makes on files, one method each, so that tests can make any of them fail.
///
/// A negative result is `-errno`. Interrupted calls are repeated.
package struct SystemCalls: Sendable {
    package enum Call: String, Sendable {
        case open, mkdir, fstat, stat, read, write, fsync, close, rename, link, unlink, chmod, flock, readdir
    }

    package enum Fault: Sendable {
        /// Fails with this `errno`, without making the call.
        case failure(CInt)
        /// Reads or writes only half of the bytes.
        case partial
    }

    /// Called before every system call.
    package var fault: (@Sendable (Call) -> Fault?)?

    /// Whether a file is on FUSE, where locks are those of one mount.
    package var isOnFUSE: @Sendable (CInt) -> Bool = FileSystem.isFUSE

    package init(fault: (@Sendable (Call) -> Fault?)? = nil) { self.fault = fault }

    package static let currentDirectory: CInt = AT_FDCWD

    package func open(_ path: String, at directory: CInt, _ flags: CInt, mode: mode_t = 0) -> Int {
        // An implicit conversion to a pointer would copy the path.
        path.withCString { path in
            perform(.open) {
                Int(openat(directory, path, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, mode))
            }
        }
    }

    package func mkdir(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        perform(.mkdir) { Int(mkdirat(directory, path, mode)) }
    }

    package func fstat(_ descriptor: CInt, _ status: inout stat) -> Int {
        perform(.fstat) { Int(LockboxPlatform.fstat(descriptor, &status)) }
    }

    /// Does not follow symbolic links.
    package func stat(_ path: String, at directory: CInt, _ status: inout stat) -> Int {
        perform(.stat) { Int(fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW)) }
    }

    package func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        perform(.read, of: buffer.count) { LockboxPlatform.read(descriptor, buffer.baseAddress, $0) }
    }

    package func write(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer) -> Int {
        perform(.write, of: bytes.count) { LockboxPlatform.write(descriptor, bytes.baseAddress, $0) }
    }

    /// Reads from that position, independent of the descriptor's offset.
    package func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
        perform(.read) { pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset)) }
    }

    /// Writes at that position, independent of the descriptor's offset.
    package func write(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        perform(.write) { pwrite(descriptor, bytes.baseAddress, bytes.count, off_t(offset)) }
    }

    package func fsync(_ descriptor: CInt) -> Int {
        perform(.fsync) { Int(flushToDrive(descriptor)) }
    }

    /// Returns another descriptor of the same open file, which shares its lock.
    package func duplicate(_ descriptor: CInt) -> Int {
        perform(.open) { Int(fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) }
    }

    @discardableResult
    package func close(_ descriptor: CInt) -> Int {
        let injected = fault?(.close)
        // Not repeated: Linux and Darwin close the descriptor even if they report an error, and a second call
        // might close another file.
        var code = LockboxPlatform.close(descriptor) == 0 ? 0 : errno
        if case .failure(let other) = injected { code = other }
        return code == EINTR ? 0 : -Int(code)
    }

    package func rename(_ old: String, at oldDirectory: CInt, to new: String, at newDirectory: CInt) -> Int {
        perform(.rename) { Int(renameat(oldDirectory, old, newDirectory, new)) }
    }

    package func link(_ path: String, to new: String) -> Int {
        perform(.link) { Int(linkat(Self.currentDirectory, path, Self.currentDirectory, new, 0)) }
    }

    package func unlink(_ path: String, at directory: CInt) -> Int {
        perform(.unlink) { Int(unlinkat(directory, path, 0)) }
    }

    package func removeFolder(_ path: String, at directory: CInt) -> Int {
        perform(.unlink) { Int(unlinkat(directory, path, AT_REMOVEDIR)) }
    }

    package func chmod(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        // A symbolic link that another process has put in the folder's place is not followed. Where the system cannot do
        // that, the mode stays what the umask left, and is checked when the folder is opened.
        perform(.chmod) {
            let result = fchmodat(directory, path, mode, AT_SYMLINK_NOFOLLOW)
            return result < 0 && errno == EOPNOTSUPP ? 0 : Int(result)
        }
    }

    package func chmod(_ descriptor: CInt, mode: mode_t) -> Int {
        perform(.chmod) { Int(fchmod(descriptor, mode)) }
    }

    /// Does not wait: returns -EWOULDBLOCK if another process holds the lock.
    package func lock(_ descriptor: CInt, isShared: Bool = false) -> Int {
        perform(.flock) { Int(flock(descriptor, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB)) }
    }

    /// Waits for the lock as long as necessary. The kernel serves waiting processes in order of arrival.
    package func waitForLock(_ descriptor: CInt) -> Int {
        perform(.flock) { Int(flock(descriptor, LOCK_EX)) }
    }

    /// Tests cannot make this fail, because a failure only affects fairness.
    package func unlock(_ descriptor: CInt) { _ = flock(descriptor, LOCK_UN) }

    /// Appends the names in a directory, except `.` and `..`. Takes ownership of the descriptor.
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
    /// Fills the buffer, or reads up to the end of the file. Returns the number of bytes read.
    package func readAll(
        _ file: CInt,
        into buffer: UnsafeMutableRawBufferPointer,
        path: @autoclosure () -> String
    )
        throws(LockboxError)
        -> Int
    {
        var offset = 0
        while offset < buffer.count {
            let count = try check(read(file, into: buffer.part(offset...)), "read", path())
            if count == 0 { break }
            offset += count
        }
        return offset
    }

    package func writeAll(_ bytes: UnsafeRawBufferPointer, to file: CInt, path: @autoclosure () -> String)
        throws(LockboxError)
    {
        var offset = 0
        while offset < bytes.count {
            offset += try check(write(file, bytes.part(offset...)), "write", path())
        }
    }

    /// Opens a file without a name, in the folder for temporary files.
    package func openTemporary() throws(LockboxError) -> CInt {
        let random = String(UInt64.random(in: .min ... .max), radix: 16)
        let name = "\(try Environment["TMPDIR"] ?? "/tmp")/lockbox-\(random)"
        let flags = O_RDWR | O_CREAT | O_EXCL
        let result = open(name, at: Self.currentDirectory, flags, mode: 0o600)
        let file = CInt(try check(result, "open", name))
        _ = unlink(name, at: Self.currentDirectory)
        return file
    }
}

/// Returns a system call's result, or throws its error.
@discardableResult
package func check(_ result: Int, _ operation: String, _ path: @autoclosure () -> String) throws(LockboxError)
    -> Int
{
    if result >= 0 { return result }
    throw LockboxError.storageFailure(operation: operation, path: path(), errno: CInt(-result))
}

/// Returns the result of a call of the C library as ``SystemCalls`` does.
func errnoIfNegative(_ result: some SignedInteger) -> Int {
    let code = errno  // before anything that might change it
    return result < 0 ? -Int(code) : Int(result)
}

/// The names in a folder, stored compactly because there may be a million.
package struct NameList: Sequence {
    /// Each name is followed by a zero byte.
    private var bytes: [UInt8] = []

    package init() {}

    /// Leaves out `.` and `..`.
    package mutating func append(_ name: Slice<UnsafeRawBufferPointer>) {
        let dot = UInt8(ascii: ".")
        if name.elementsEqual([dot]) || name.elementsEqual([dot, dot]) { return }
        bytes.append(contentsOf: name)
        bytes.append(0)
    }

    /// Adds the names that are not in this list yet.
    package mutating func formUnion(_ other: NameList) {
        let known = Set(self)
        for name in other where !known.contains(name) {
            bytes.append(contentsOf: name.utf8)
            bytes.append(0)
        }
    }

    /// Names that are not UTF-8 are repaired. They are not Lockbox's, neither before nor after.
    package func makeIterator() -> AnyIterator<String> {
        var start = 0
        return AnyIterator {
            guard let end = bytes[start...].firstIndex(of: 0) else { return nil }
            defer { start = end + 1 }
            return String(decoding: bytes[start..<end], as: UTF8.self)
        }
    }
}
