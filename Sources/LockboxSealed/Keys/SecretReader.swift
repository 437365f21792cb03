import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Reads a secret from where it may be slow or endless.
enum SecretReader {
    static func file(_ path: String, maximum: Int) throws -> [UInt8] {
        // Without waiting for the other end of a FIFO.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw LockboxError.storageFailure(operation: "open", path: path, errno: errno)
        }
        defer { close(descriptor) }
        return try self.descriptor(descriptor, path: path, maximum: maximum)
    }

    /// Everything up to the end, if that comes in time.
    static func descriptor(
        _ descriptor: CInt,
        path: String,
        maximum: Int,
        timeout: Duration = PasscodeSource.timeout
    ) throws -> [UInt8] {
        // poll(2) would wait for a descriptor that is not open.
        guard fcntl(descriptor, F_GETFD) >= 0 else {
            throw LockboxError.storageFailure(operation: "read", path: path, errno: errno)
        }
        if isatty(descriptor) == 1 {
            throw LockboxError.invalidPasscode(
                reason: "\(path) is a terminal, which would have to be waited for"
            )
        }
        let deadline = ContinuousClock.now + timeout
        // One byte more than it may have, by which it is refused; never grown, which would leave copies.
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
            throw LockboxError.invalidPasscode(reason: "\(path) has more than \(maximum) bytes")
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
                throw LockboxError.invalidPasscode(reason: "\(path) gave none in time")
            }
            if errno != EINTR {
                throw LockboxError.storageFailure(operation: "poll", path: path, errno: errno)
            }
        }
    }
}
