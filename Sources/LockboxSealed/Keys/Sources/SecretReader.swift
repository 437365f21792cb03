import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Reads a secret from a source that may block or never end.
enum SecretReader {
    static func file(_ path: String, maximum: Int) throws -> [UInt8] {
        // O_NONBLOCK: does not wait for a FIFO's writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw LockboxError.storageFailure(operation: "open", path: path, errno: errno)
        }
        defer { close(descriptor) }
        return try self.descriptor(descriptor, path: path, maximum: maximum)
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
