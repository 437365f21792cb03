package import LockboxCore
package import LockboxPlatform

/// The calls of a ``World`` that Lockbox makes on files, so that tests can make any of them fail.
///
/// A negative result is `-errno`. Interrupted calls are repeated.
package struct SystemCalls: Sendable {
    package enum Call: String, Sendable {
        case open, mkdir, fstat, stat, read, write, fsync, close, rename, unlink, chmod, flock, readdir
    }

    package enum Fault: Sendable {
        /// Fails with this `errno`, without making the call.
        case failure(CInt)
        /// Reads or writes only half of the bytes.
        case partial
    }

    /// Called before every system call.
    package var fault: (@Sendable (Call) -> Fault?)?

    /// Called when the process or the system has run out of descriptors, before the call is made once more.
    package var spareDescriptors: (@Sendable () -> Void)?

    /// Whether a file is on FUSE, where locks are those of one mount.
    package var isOnFUSE: @Sendable (CInt) -> Bool

    package let world: any World

    /// Makes the calls in the world of this thread.
    package init(fault: (@Sendable (Call) -> Fault?)? = nil) {
        let world = LockboxPlatform.world
        self.fault = fault
        self.world = world
        isOnFUSE = { world.isOnFUSE($0) }
    }

    package static let currentDirectory: CInt = AT_FDCWD

    package func open(_ path: String, at directory: CInt, _ flags: CInt, mode: mode_t = 0) -> Int {
        perform(.open) {
            world.open(
                path,
                at: directory,
                flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
                mode: mode
            )
        }
    }

    /// Also through links: for files that are no part of a store.
    package func openFollowingLinks(_ path: String, _ flags: CInt) -> Int {
        perform(.open) { world.open(path, at: Self.currentDirectory, flags | O_CLOEXEC | O_NOCTTY, mode: 0) }
    }

    package func mkdir(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        perform(.mkdir) { world.mkdir(path, at: directory, mode: mode) }
    }

    package func fstat(_ descriptor: CInt, _ status: inout stat) -> Int {
        perform(.fstat) { world.fstat(descriptor, &status) }
    }

    /// Does not follow symbolic links.
    package func stat(_ path: String, at directory: CInt, _ status: inout stat) -> Int {
        perform(.stat) { world.stat(path, at: directory, &status, followingLinks: false) }
    }

    package func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        perform(.read, of: buffer.count) { world.read(descriptor, into: buffer.part(..<$0), at: nil) }
    }

    package func write(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer) -> Int {
        perform(.write, of: bytes.count) { world.write(descriptor, bytes.part(..<$0), at: nil) }
    }

    /// Reads from that position, independent of the descriptor's offset.
    package func read(_ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
        perform(.read) { world.read(descriptor, into: buffer, at: offset) }
    }

    /// Writes at that position, independent of the descriptor's offset.
    package func write(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        perform(.write) { world.write(descriptor, bytes, at: offset) }
    }

    package func fsync(_ descriptor: CInt) -> Int {
        perform(.fsync) { world.synchronize(descriptor) }
    }

    package func truncate(_ descriptor: CInt, to length: Int) -> Int {
        perform(.write) { world.truncate(descriptor, to: length) }
    }

    /// Sets the offset of an open file, or returns it.
    package func seek(_ descriptor: CInt, to offset: Int? = nil) -> Int {
        perform(.read) { world.seek(descriptor, to: offset) }
    }

    /// Returns another descriptor of the same open file, which shares its lock.
    package func duplicate(_ descriptor: CInt) -> Int {
        perform(.open) { world.duplicate(descriptor) }
    }

    @discardableResult
    package func close(_ descriptor: CInt) -> Int {
        let injected = fault?(.close)
        // Not repeated: Linux and Darwin close the descriptor even if they report an error, and a second call
        // might close another file.
        var result = world.close(descriptor)
        if case .failure(let code) = injected { result = -Int(code) }
        return result == -Int(EINTR) ? 0 : result
    }

    package func rename(_ old: String, at oldDirectory: CInt, to new: String, at newDirectory: CInt) -> Int {
        perform(.rename) { world.rename(old, at: oldDirectory, to: new, at: newDirectory) }
    }

    package func unlink(_ path: String, at directory: CInt) -> Int {
        perform(.unlink) { world.unlink(path, at: directory, isFolder: false) }
    }

    package func removeFolder(_ path: String, at directory: CInt) -> Int {
        perform(.unlink) { world.unlink(path, at: directory, isFolder: true) }
    }

    package func chmod(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        // A symbolic link that another process has put in the folder's place is not followed. Where the system cannot do
        // that, the mode stays what the umask left, and is checked when the folder is opened.
        perform(.chmod) {
            let result = world.chmod(path, at: directory, mode: mode)
            return result == -Int(EOPNOTSUPP) ? 0 : result
        }
    }

    package func chmod(_ descriptor: CInt, mode: mode_t) -> Int {
        perform(.chmod) { world.chmod(descriptor, mode: mode) }
    }

    /// Does not wait: returns -EWOULDBLOCK if another process holds the lock.
    package func lock(_ descriptor: CInt, isShared: Bool = false) -> Int {
        perform(.flock) { world.lock(descriptor, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB) }
    }

    /// Waits for the lock as long as necessary. The kernel serves waiting processes in order of arrival.
    package func waitForLock(_ descriptor: CInt) -> Int {
        perform(.flock) { world.lock(descriptor, LOCK_EX) }
    }

    /// Tests cannot make this fail, because a failure only affects fairness.
    package func unlock(_ descriptor: CInt) { _ = world.lock(descriptor, LOCK_UN) }

    /// Appends the names in a directory, except `.` and `..`. Takes ownership of the descriptor.
    package func names(in descriptor: CInt, _ names: inout NameList) -> Int {
        if case .failure(let code) = fault?(.readdir), code != EINTR {
            _ = world.close(descriptor)
            return -Int(code)
        }
        return world.forEachName(in: descriptor) { names.append($0) }
    }

    private func perform(_ call: Call, _ body: () -> Int) -> Int {
        perform(call, of: 0) { _ in body() }
    }

    private func perform(_ call: Call, of count: Int, _ body: (Int) -> Int) -> Int {
        var spareDescriptors = call == .open ? spareDescriptors : nil
        while true {
            let result = attempt(call, of: count, body)
            if result == -Int(EMFILE) || result == -Int(ENFILE), let spare = spareDescriptors.take() {
                spare()
            } else if result != -Int(EINTR) {
                return result
            }
        }
    }

    private func attempt(_ call: Call, of count: Int, _ body: (Int) -> Int) -> Int {
        switch fault?(call) {
        case .failure(let code): -Int(code)
        case .partial: body((count + 1) / 2)
        case nil: body(count)
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
            let result = read(file, into: buffer.part(offset...))
            if result == -Int(EAGAIN) {
                world.sleep(Self.pause)
            } else {
                if result == 0 { break }
                offset += try check(result, "read", path())
            }
        }
        return offset
    }

    /// Returns what is in a regular file, or nil if it cannot be read or is larger than 1 MiB.
    func contents(of path: String) -> [UInt8]? {
        let file = CInt(openFollowingLinks(path, O_RDONLY | O_NONBLOCK))
        guard file >= 0 else { return nil }
        defer { close(file) }
        var status = LockboxPlatform.stat()
        guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= 1 << 20 else {
            return nil
        }
        var bytes = [UInt8](repeating: 0, count: Int(status.st_size))
        let count = bytes.withUnsafeMutableBytes { try? readAll(file, into: $0, path: path) }
        return count.map { Array(bytes[..<$0]) }
    }

    package func writeAll(_ bytes: UnsafeRawBufferPointer, to file: CInt, path: @autoclosure () -> String)
        throws(LockboxError)
    {
        var offset = 0
        while offset < bytes.count {
            let result = write(file, bytes.part(offset...))
            if result == -Int(EAGAIN) {
                world.sleep(Self.pause)
            } else {
                offset += try check(result, "write", path())
            }
        }
    }

    /// Standard input and output may not block: node, asyncio and ssh leave their children's like that.
    private static let pause: Duration = .milliseconds(5)

    /// Opens a file without a name, in the folder for temporary files.
    package func openTemporary() throws(LockboxError) -> CInt {
        let random = String(world.randomNumber, radix: 16)
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
    throw LockboxError.storageFailure(operation: operation, path: .other(path()), errno: CInt(-result))
}

/// The names in a folder, stored compactly because there may be a million.
package struct NameList: Sequence {
    /// Each name is followed by a zero byte.
    private var bytes: [UInt8] = []

    package init() {}

    /// Leaves out `.` and `..`.
    package mutating func append(_ name: UnsafeRawBufferPointer) {
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
