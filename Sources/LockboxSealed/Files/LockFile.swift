import CLinux
import LockboxCore
import LockboxFiles
import LockboxPlatform

/// A folder's file `lock`, open. It is never renamed or removed; `flock` on it is the folder's exclusive lock, which the
/// kernel takes back when its holder dies.
///
/// The file holds the folder's change count, a little-endian `u64`: odd while a file is being renamed into its place,
/// and another number after each holder. Readers take no lock; the count tells them whether they were disturbed.
final class LockFile: Sendable {
    static let name = "lock"

    private let directory: Directory
    private let descriptor: CInt
    private let identity: FileIdentity?
    private var calls: SystemCalls { directory.calls }
    private var path: String { directory.filePath(Self.name) }

    private init(_ directory: Directory, _ descriptor: CInt, _ identity: FileIdentity?) {
        self.directory = directory
        self.descriptor = descriptor
        self.identity = identity
    }

    deinit { calls.close(descriptor) }

    /// The file for taking the lock; made if it is not there.
    convenience init(_ directory: Directory) throws {
        let calls = directory.calls
        let result = calls.open(Self.name, at: directory.descriptor, O_RDWR | O_CREAT, mode: 0o600)
        let descriptor = CInt(try directory.checkOpened(result, Self.name))
        do {
            let status = try directory.checkedStatus(of: descriptor, Self.name)
            if status.st_mode & 0o600 != 0o600 {  // made under a umask that takes it from ourselves
                try check(calls.chmod(descriptor, mode: 0o600), "chmod", directory.filePath(Self.name))
            }
            self.init(directory, descriptor, FileIdentity(status))
        } catch {
            calls.close(descriptor)
            throw error
        }
    }

    // MARK: The lock

    /// False if another holds it.
    func lock() throws -> Bool {
        let result = calls.lock(descriptor)
        if result == -Int(EWOULDBLOCK) { return false }
        try check(result, "flock", path)
        return true
    }

    /// The lock, however long that takes. The kernel serves those who wait in the order of their coming; but who comes just
    /// when it is free overtakes them, and so looks at ``isWaitedFor`` first.
    func waitForLock() -> Int {
        file_set_waiting(descriptor, 1)
        defer { file_set_waiting(descriptor, 0) }
        return calls.waitForLock(descriptor)
    }

    /// Whether others wait for the lock. Unknown, and so false, on Apple's systems.
    var isWaitedFor: Bool { file_is_waited_for(descriptor) != 0 }

    /// Not left to the closing, as a forked child may have the same descriptor open.
    func unlock() { calls.unlock(descriptor) }

    /// Whether nobody has put another file in its place, on which others hold their lock.
    var isInPlace: Bool {
        var current = stat()
        let found = calls.stat(Self.name, at: directory.descriptor, &current)
        return found == 0 && FileIdentity(current) == identity
    }

    // MARK: The change count

    func count() throws -> UInt64 {
        var count: UInt64 = 0
        let result = withUnsafeMutableBytes(of: &count) { calls.read(descriptor, into: $0, at: 0) }
        try check(result, "read", path)
        return UInt64(littleEndian: count)
    }

    func setCount(_ count: UInt64) throws {
        let result = withUnsafeBytes(of: count.littleEndian) { calls.write(descriptor, $0, at: 0) }
        try check(result, "write", path)
    }

    /// A folder's change count. 0 if nobody has ever taken its lock.
    static func count(of directory: Directory) throws -> UInt64 {
        let result = directory.calls.open(name, at: directory.descriptor, O_RDONLY)
        if result == -Int(ENOENT) { return 0 }
        return try LockFile(directory, CInt(directory.checkOpened(result, name)), nil).count()
    }
}
