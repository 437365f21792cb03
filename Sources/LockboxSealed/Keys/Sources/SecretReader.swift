import LockboxCore
import LockboxFiles
import LockboxPlatform
import LockboxSodium

/// Reads a secret from a source that may block or never end.
package enum SecretReader {
    /// - Throws: `unsafePermissions` if others can read or change the file.
    package static func file(_ path: String, maximum: Int) throws -> [UInt8] {
        if path.utf8.contains(0) {
            throw LockboxError.invalidLocation(location: path, reason: "its name has a zero byte")
        }
        // O_NONBLOCK: does not wait for a FIFO's writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw LockboxError.storageFailure(operation: "open", path: path, errno: errno)
        }
        defer { close(descriptor) }
        try check(descriptor, path)
        return try self.descriptor(descriptor, path: path, maximum: maximum)
    }

    /// Throws if others can use the file. Not if it was opened for this process, whose parent decides who else reads it. Of
    /// systemd's credentials, the mode does not say who can read them.
    private static func check(_ descriptor: CInt, _ path: String) throws(LockboxError) {
        let folder = Path.parent(of: path)
        if path == "/dev/stdin" || descriptorFolders.contains(folder) { return }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw LockboxError.storageFailure(operation: "fstat", path: path, errno: errno)
        }
        // Nothing else holds a secret.
        guard [S_IFREG, S_IFIFO].contains(status.st_mode & S_IFMT) else { return }
        let isCredential = (try? Environment["CREDENTIALS_DIRECTORY"]) == folder
        // The group of a file that is not this user's is what lets this user read it.
        let allowed: mode_t = isCredential ? 0o755 : status.st_uid == geteuid() ? 0o700 : 0o750
        let reason: String? =
            if status.st_uid != geteuid(), status.st_uid != 0 {
                "it belongs to user \(status.st_uid), and this process runs as \(geteuid()); chown it"
            } else if status.st_mode & 0o777 & ~allowed != 0 {
                "its mode 0\(String(status.st_mode & 0o7777, radix: 8)) lets others use it; chmod 600 it"
            } else {
                nil
            }
        if let reason { throw LockboxError.unsafePermissions(path: path, reason: reason) }
    }

    /// Reads up to the end of file, or throws when the time is up.
    static func descriptor(
        _ descriptor: CInt,
        path: String,
        maximum: Int,
        timeout: Duration = PasscodeSource.timeout
    ) throws -> [UInt8] {
        // poll(2) would wait for a closed descriptor.
        guard fcntl(descriptor, F_GETFD) >= 0 else {
            throw LockboxError.storageFailure(operation: "read", path: path, errno: errno)
        }
        if isatty(descriptor) == 1 {
            throw LockboxError.invalidPasscode(
                reason: "\(path) is a terminal; use a file or a pipe"
            )
        }
        let deadline = ContinuousClock.now + timeout
        // One byte more than allowed, to detect excess. Never grown, which would leave copies.
        var buffer = [UInt8](repeating: 0, count: maximum + 1)
        var count = 0
        while count < buffer.count {
            try wait(for: descriptor, until: deadline, path)
            let read = buffer.withUnsafeMutableBytes {
                LockboxPlatform.read(descriptor, $0.baseAddress! + count, $0.count - count)
            }
            if read == 0 { break }
            if read < 0 {
                if errno == EINTR || errno == EAGAIN { continue }
                let code = errno
                Sodium.wipe(&buffer)
                throw LockboxError.storageFailure(operation: "read", path: path, errno: code)
            }
            count += read
        }
        defer { Sodium.wipe(&buffer) }
        guard count <= maximum else {
            throw LockboxError.invalidPasscode(reason: "\(path) is longer than a secret may be")
        }
        return Array(buffer[..<count])
    }

    private static func wait(for descriptor: CInt, until deadline: ContinuousClock.Instant, _ path: String)
        throws
    {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while true {
            let rest = deadline - ContinuousClock.now
            let milliseconds = Int32(
                max(0, rest.components.seconds * 1000 + rest.components.attoseconds / 1_000_000_000_000_000)
            )
            let result = poll(&request, 1, milliseconds)
            if result > 0 { return }
            if result == 0 {
                throw LockboxError.invalidPasscode(reason: "reading \(path) timed out")
            }
            if errno != EINTR {
                throw LockboxError.storageFailure(operation: "poll", path: path, errno: errno)
            }
        }
    }
}
