import Foundation

/// The exclusive lock of a folder: `flock` on a file `lock` in it, which is never renamed or removed. The kernel
/// lets go of it when its holder dies.
struct DirectoryLock: ~Copyable {
    static let fileName = "lock"

    private let directory: Directory
    private let descriptor: CInt

    /// Waits for the lock, but not for ever: its holder may be a process that was stopped.
    ///
    /// - Throws: `storageFailure` of `flock` with `EWOULDBLOCK` after `timeout`.
    static func acquire(_ directory: Directory, timeout: Duration) throws -> DirectoryLock {
        let deadline = ContinuousClock.now + timeout
        var pause: UInt32 = 50  // microseconds
        while true {
            if let lock = try attempt(directory) { return lock }
            guard ContinuousClock.now < deadline else {
                throw LockboxError.storageFailure(
                    operation: "flock",
                    path: directory.filePath(fileName),
                    errno: EWOULDBLOCK
                )
            }
            usleep(pause)
            pause = min(2 * pause, 2000)
        }
    }

    /// The lock, or nil if another holds it.
    static func attempt(_ directory: Directory) throws -> DirectoryLock? {
        let calls = directory.calls
        let result = calls.open(fileName, at: directory.descriptor, O_RDWR | O_CREAT, mode: 0o600)
        let lock = DirectoryLock(
            directory: directory,
            descriptor: CInt(try directory.checkOpened(result, fileName))
        )
        let status = try directory.checkedStatus(of: lock.descriptor, fileName)
        if status.st_mode & 0o600 != 0o600 {  // made under a umask that takes it from ourselves
            try check(calls.chmod(lock.descriptor, mode: 0o600), "chmod", directory.filePath(fileName))
        }
        let locked = calls.lock(lock.descriptor)
        if locked == -Int(EWOULDBLOCK) { return nil }
        try check(locked, "flock", directory.filePath(fileName))
        // Somebody may have put another file in its place, on which others hold their lock.
        var current = stat()
        let found = calls.stat(fileName, at: directory.descriptor, &current)
        guard found == 0, FileIdentity(current) == FileIdentity(status) else { return nil }
        return lock
    }

    private init(directory: Directory, descriptor: CInt) {
        self.directory = directory
        self.descriptor = descriptor
    }

    /// Lets go of it. Also happens by itself; written out where it must not happen earlier.
    borrowing func release() {}

    deinit {
        // Before it is closed, as a forked child may have the same descriptor open.
        directory.calls.unlock(descriptor)
        directory.calls.close(descriptor)
    }
}
