@_spi(Extensions) import LockboxCore
package import LockboxPlatform

/// The source of a passcode. It is read when the passcode is needed, and the bytes are wiped after use.
///
/// Only ``closure(_:)`` can wait for user input. With any other source, the call throws
/// ``LockboxError/invalidPasscode(reason:)`` if the passcode is not available within 10 seconds, if the source
/// is a terminal, or if the variable is not set.
///
/// For all sources, one trailing newline (`\n` or `\r\n`) is removed, and text is converted to Unicode
/// normalization form C, so that the passcode is the same whatever keyboard or editor produced it. A passcode
/// has 1 to 1,024 bytes.
public struct PasscodeSource: Sendable {
    /// The maximum length of a passcode, in bytes.
    @_spi(Extensions) public static let maximumLength = 1024

    /// The time limit for reading the passcode from a pipe: 10 seconds.
    package static let timeout: Duration = .seconds(10)

    /// Reads at most so many bytes.
    private let source: @Sendable (_ maximum: Int) throws -> [UInt8]

    private init(source: @escaping @Sendable (_ maximum: Int) throws -> [UInt8]) { self.source = source }

    /// Uses the passcode itself.
    ///
    /// - Parameter passcode: 1 to 1,024 bytes of UTF-8. The caller's own string cannot be wiped.
    public static func value(_ passcode: String) -> PasscodeSource {
        PasscodeSource { _ in Array(passcode.utf8) }
    }

    /// Uses the bytes that a closure returns, for programs with their own prompt: they can wipe what was typed.
    ///
    /// - Parameter passcode: Called every time the passcode is needed. It must return a new array each time, which is wiped
    ///   after use. A copy that you keep is not. Errors that it throws are rethrown.
    public static func closure(_ passcode: @escaping @Sendable () throws -> [UInt8]) -> PasscodeSource {
        PasscodeSource { _ in try passcode() }
    }

    /// Reads the passcode from a file. Symbolic links are followed, because Kubernetes mounts secrets through
    /// them.
    ///
    /// - Parameter path: The file. If it cannot be opened, the call that needs the passcode throws
    ///   ``LockboxError/storageFailure(operation:path:errno:explanation:)``. If others can read or change it, the call throws
    ///   ``LockboxError/unsafePermissions(path:reason:)``: it must belong to this user or to root, and only its owner may use it.
    ///   The group of a file of root's may read it. An open descriptor, such as `/dev/fd/3`, and a systemd credential are not held
    ///   to that.
    public static func file(_ path: String) -> PasscodeSource {
        PasscodeSource { try SecretReader.file(path, maximum: $0) }
    }

    /// Reads the passcode from an open file descriptor, up to the end of file: a pipe or a file, but not a
    /// terminal. The descriptor stays open.
    ///
    /// - Parameter descriptor: The file descriptor. A pipe can be read only once.
    @_spi(Extensions)
    public static func fileDescriptor(_ descriptor: Int32) -> PasscodeSource {
        PasscodeSource {
            try SecretReader.descriptor(descriptor, path: "file descriptor \(descriptor)", maximum: $0)
        }
    }

    /// Reads the passcode from a systemd credential: the file with the given name in `$CREDENTIALS_DIRECTORY`
    /// (`LoadCredential=`, `LoadCredentialEncrypted=`).
    ///
    /// - Parameter name: The credential's name in the unit.
    public static func credential(_ name: String = "lockbox-passcode") -> PasscodeSource {
        PasscodeSource { try SecretReader.credential(name, maximum: $0) }
    }

    /// The first of these that is set: the file named by `LOCKBOX_PASSCODE_FILE`; the systemd credential
    /// `lockbox-passcode`; the environment variable `LOCKBOX_PASSCODE`, only as a last resort: the user's other processes can read
    /// it in `/proc`, and child processes inherit it. If reading it fails, its error is thrown, and the next is not tried.
    public static let standard = PasscodeSource { maximum in
        if let path = try Environment["LOCKBOX_PASSCODE_FILE"] {
            return try SecretReader.file(path, maximum: maximum)
        }
        if let directory = try Environment["CREDENTIALS_DIRECTORY"],
            world.access("\(directory)/lockbox-passcode", F_OK) == 0
        {
            return try credential().source(maximum)
        }
        guard let value = Environment.bytes("LOCKBOX_PASSCODE") else {
            throw LockboxError.invalidPasscode(reason: "LOCKBOX_PASSCODE is not set")
        }
        return value
    }

    /// Calls `body` with the passcode, and wipes it afterwards.
    @_spi(Extensions)
    public func withBytes<Result>(
        atMost maximum: Int = maximumLength,
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result {
        try read(atMost: maximum) { bytes in
            try canonicalize(&bytes, atMost: maximum)
            return try bytes.withUnsafeBytes(body)
        }
    }

    /// Returns the passcode in normalization form C and, if they differ, its own bytes: other programs convert nothing.
    package func forms() throws -> [WipedBytes] {
        try read(atMost: Self.maximumLength) { bytes in
            let own = bytes.withUnsafeBytes(WipedBytes.init)
            let count = bytes.count
            try canonicalize(&bytes, atMost: Self.maximumLength)
            let isSame = own.withBytes { own in
                count == bytes.count && bytes.withUnsafeBytes { $0.elementsEqual(own) }
            }
            let canonical = bytes.withUnsafeBytes(WipedBytes.init)
            return isSame ? [canonical] : [canonical, own]
        }
    }

    /// Calls `body` with the bytes without a line end, and wipes them afterwards.
    private func read<Result>(atMost maximum: Int, _ body: (inout [UInt8]) throws -> Result) throws -> Result
    {
        var bytes = try source(maximum + 2)
        defer { Sodium.wipe(&bytes) }
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        }
        if bytes.isEmpty { throw LockboxError.invalidPasscode(reason: "it is empty") }
        return try body(&bytes)
    }
}

/// Converts text to Unicode normalization form C.
///
/// - Throws: `invalidPasscode` if it is too long then.
private func canonicalize(_ bytes: inout [UInt8], atMost maximum: Int) throws(LockboxError) {
    canonicalize(&bytes)
    if bytes.count > maximum {
        throw LockboxError.invalidPasscode(reason: "it is longer than \(maximum) bytes")
    }
}

/// Converts text to Unicode normalization form C. Leaves bytes that are not UTF-8 unchanged. Wipes its copies.
private func canonicalize(_ bytes: inout [UInt8]) {
    if bytes.allSatisfy({ $0 < 0x80 }) { return }
    guard var text = String(validating: bytes, as: UTF8.self) else { return }
    var canonical: [UInt8] = []
    // The maximum length in form C: growing the array would leave copies.
    canonical.reserveCapacity(3 * bytes.count)
    // One character at a time, since composition never crosses characters: any copies that are left are only a few bytes
    // long.
    for character in text { canonical += String(character).canonical.utf8 }
    text.withUTF8 { Sodium.wipe(UnsafeMutableRawBufferPointer(mutating: UnsafeRawBufferPointer($0))) }
    Sodium.wipe(&bytes)
    bytes = canonical
}

extension PasscodeSource: Undescribed {}

/// Reads a secret from a source that may block or never end.
@_spi(Extensions)
public enum SecretReader {
    /// Reads a file.
    /// - Throws: `unsafePermissions` if others can read or change the file.
    public static func file(_ path: String, maximum: Int) throws -> [UInt8] {
        if path.utf8.contains(0) {
            throw LockboxError.invalidLocation(location: path, reason: "its name has a zero byte")
        }
        let calls = SystemCalls()
        // O_NONBLOCK: does not wait for a FIFO's writer.
        let descriptor = CInt(try check(calls.openFollowingLinks(path, O_RDONLY | O_NONBLOCK), "open", path))
        defer { calls.close(descriptor) }
        try checkPermissions(descriptor, path)
        return try self.descriptor(descriptor, path: path, maximum: maximum)
    }

    static func credential(_ name: String, maximum: Int) throws -> [UInt8] {
        guard let directory = try Environment["CREDENTIALS_DIRECTORY"] else {
            throw LockboxError.invalidPasscode(reason: "CREDENTIALS_DIRECTORY is not set")
        }
        return try file("\(directory)/\(name)", maximum: maximum)
    }

    /// Throws if others can use the file. Not if it was opened for this process, whose parent decides who else reads it. The
    /// mode of systemd's credentials does not say who can read them.
    private static func checkPermissions(_ descriptor: CInt, _ path: String) throws(LockboxError) {
        let folder = Path.parent(of: path)
        if path == "/dev/stdin" || descriptorFolders.contains(folder) { return }
        var status = stat()
        try check(SystemCalls().fstat(descriptor, &status), "fstat", path)
        // Nothing else holds a secret.
        guard [S_IFREG, S_IFIFO].contains(status.st_mode & S_IFMT) else { return }
        let isCredential = (try? Environment["CREDENTIALS_DIRECTORY"]) == folder
        let user = world.user
        // The group of a file that is not this user's is what lets this user read it.
        let allowed: mode_t = isCredential ? 0o755 : status.st_uid == user ? 0o700 : 0o750
        let reason: String? =
            if status.st_uid != user, status.st_uid != 0 {
                "it belongs to user \(status.st_uid), and this process runs as \(user); chown it"
            } else if status.st_mode & 0o777 & ~allowed != 0 {
                "its mode 0\(String(status.st_mode & 0o7777, radix: 8)) lets others use it; \(modeAdvice(600))"
            } else {
                nil
            }
        if let reason { throw LockboxError.unsafePermissions(path: .other(path), reason: reason) }
    }

    /// Reads up to the end of file, or throws when the time is up.
    static func descriptor(
        _ descriptor: CInt,
        path: String,
        maximum: Int,
        timeout: Duration = PasscodeSource.timeout
    ) throws -> [UInt8] {
        let world = world
        if world.isTerminal(descriptor) {
            throw LockboxError.invalidPasscode(
                reason: "\(path) is a terminal; use a file or a pipe"
            )
        }
        let deadline = world.uptime + timeout
        // One byte more than allowed, to detect excess. Never grown, which would leave copies.
        var buffer = [UInt8](repeating: 0, count: maximum + 1)
        defer { Sodium.wipe(&buffer) }
        var count = 0
        while count < buffer.count {
            try wait(for: descriptor, until: deadline, path)
            let read = buffer.withUnsafeMutableBytes {
                world.read(descriptor, into: $0.part(count...), at: nil)
            }
            if read == 0 { break }
            if read == -Int(EINTR) || read == -Int(EAGAIN) { continue }
            count += try check(read, "read", path)
        }
        guard count <= maximum else {
            throw LockboxError.invalidPasscode(reason: "\(path) exceeds the limit of \(maximum) bytes")
        }
        return Array(buffer[..<count])
    }

    private static func wait(for descriptor: CInt, until deadline: Duration, _ path: String) throws {
        while true {
            let result = world.waitForInput(descriptor, atMost: deadline - world.uptime)
            if result > 0 { return }
            if result == 0 { throw LockboxError.invalidPasscode(reason: "reading \(path) timed out") }
            if result != -Int(EINTR) { try check(result, "read", path) }
        }
    }
}
