import CLinux
import LockboxCore
import LockboxFiles
import LockboxPlatform

/// A folder's open `lock` file. It is never renamed or removed. `flock` on it is the folder's exclusive lock,
/// which the kernel releases when its holder dies.
///
/// The file contains the folder's change count, a little-endian `u64`. It is odd while a file is being renamed
/// into the folder, different after each holder, and advances while a holder writes many files. Readers take no
/// lock: the count tells them whether a writer has interfered.
final class LockFile: Sendable {
    static let name = "lock"

    private let directory: Directory
    private let descriptor: CInt
    private let identity: FileIdentity?
    /// Whether nobody had released the lock yet when the file was opened.
    let isNew: Bool
    private var calls: SystemCalls { directory.calls }
    private var path: String { directory.filePath(Self.name) }

    private init(_ directory: Directory, _ descriptor: CInt, _ identity: FileIdentity?, isNew: Bool) {
        self.directory = directory
        self.descriptor = descriptor
        self.identity = identity
        self.isNew = isNew
    }

    deinit { calls.close(descriptor) }

    /// Opens the file to take the lock. Creates it if it does not exist.
    convenience init(_ directory: Directory) throws(LockboxError) {
        let calls = directory.calls
        let result = calls.open(Self.name, at: directory.descriptor, O_RDWR | O_CREAT, mode: 0o600)
        let descriptor = CInt(try directory.checkOpened(result, Self.name))
        do {
            let status = try directory.checkedStatus(of: descriptor, Self.name)
            if status.st_mode & 0o600 != 0o600 {  // made under a umask that takes it from ourselves
                try check(calls.chmod(descriptor, mode: 0o600), "chmod", directory.filePath(Self.name))
            }
            self.init(directory, descriptor, FileIdentity(status), isNew: status.st_size == 0)
        } catch {
            calls.close(descriptor)
            throw error
        }
    }

    // MARK: The lock

    /// Takes the lock. Returns false if another process holds it.
    func lock() throws(LockboxError) -> Bool {
        let result = calls.lock(descriptor)
        if result == -Int(EWOULDBLOCK) { return false }
        try check(result, "flock", path)
        return true
    }

    /// Takes the lock, waiting as long as necessary. The kernel serves waiting processes in order, but a
    /// process that arrives just when the lock is free overtakes them, and so checks ``isWaitedFor`` first.
    func waitForLock() -> Int {
        file_set_waiting(descriptor, 1)
        defer { file_set_waiting(descriptor, 0) }
        return calls.waitForLock(descriptor)
    }

    /// Whether others wait for the lock. Always false on Apple's systems, where it cannot be determined.
    var isWaitedFor: Bool { file_is_waited_for(descriptor) != 0 }

    /// Explicit, because closing is not enough if a forked child has inherited the descriptor.
    func unlock() { calls.unlock(descriptor) }

    /// Whether the file has not been replaced by another one, which others would lock instead.
    var isInPlace: Bool {
        var current = stat()
        let found = calls.stat(Self.name, at: directory.descriptor, &current)
        return found == 0 && FileIdentity(current) == identity
    }

    // MARK: The change count

    func count() throws(LockboxError) -> UInt64 {
        var count: UInt64 = 0
        let result = withUnsafeMutableBytes(of: &count) { calls.read(descriptor, into: $0, at: 0) }
        try check(result, "read", path)
        return UInt64(littleEndian: count)
    }

    func setCount(_ count: UInt64) throws(LockboxError) {
        let result = withUnsafeBytes(of: count.littleEndian) { calls.write(descriptor, $0, at: 0) }
        try check(result, "write", path)
    }

    /// Returns a folder's change count, or 0 if its lock has never been taken.
    static func count(of directory: Directory) throws(LockboxError) -> UInt64 {
        let result = directory.calls.open(name, at: directory.descriptor, O_RDONLY)
        if result == -Int(ENOENT) { return 0 }
        let descriptor = CInt(try directory.checkOpened(result, name))
        return try LockFile(directory, descriptor, nil, isNew: false).count()
    }
}
