import CLinux
public import LockboxCore
import LockboxPlatform

/// A file of other programs, which is read as a whole and replaced by another.
@_spi(Extensions)
public struct ReplaceableFile {
    /// An absolute path without links.
    public let path: String
    /// All that the file held when it was read.
    public let bytes: [UInt8]

    private let status: stat
    private let calls: SystemCalls

    /// Reads a file. Returns nil if nothing has this path.
    ///
    /// - Throws: ``LockboxError/unsafePermissions(path:reason:)`` if it cannot be replaced;
    ///   ``LockboxError/sourceRefused(path:reason:)`` if it has more bytes than a value can have; another ``LockboxError`` if it
    ///   cannot be read.
    public init?(_ path: String) throws(LockboxError) { try self.init(path, SystemCalls()) }

    package init?(_ path: String, _ calls: SystemCalls) throws(LockboxError) {
        // Resolves symbolic links, because the file must be replaced, not the link.
        guard let resolved = realpath(path, nil) else {
            let code = errno
            if code != ENOENT {
                throw LockboxError.storageFailure(operation: "realpath", path: path, errno: code)
            }
            if try Self.isAbsent(path, calls) { return nil }
            throw LockboxError.unsafePermissions(
                path: path,
                reason: "it is a pipe, a deleted file or a link that leads nowhere; name a regular file"
            )
        }
        defer { free(resolved) }
        guard let destination = String(validatingCString: resolved) else {
            throw LockboxError.invalidLocation(
                location: path,
                reason: "a folder above it has a name that is not UTF-8"
            )
        }
        let opened = calls.open(destination, at: SystemCalls.currentDirectory, O_RDONLY)
        let file = CInt(try check(opened, "open", destination))
        defer { calls.close(file) }
        var status = stat()
        try check(calls.fstat(file, &status), "fstat", destination)
        try Self.checkCanBeReplaced(file, status, destination)
        let bytes = try Self.read(file, Int(status.st_size), destination, calls)
        var now = stat()
        try check(calls.stat(destination, at: SystemCalls.currentDirectory, &now), "stat", destination)
        guard FileState(now) == FileState(status) else {
            throw LockboxError.storageFailure(operation: "read", path: destination, errno: EBUSY)
        }
        (self.path, self.bytes, self.status, self.calls) = (destination, bytes, status, calls)
    }

    /// Returns an absolute path of the same file.
    public static func absolutePath(_ path: String) throws(LockboxError) -> String { try Path.absolute(path) }

    /// Replaces the file, unless it has changed. The new one has the same owner and permissions.
    ///
    /// - Returns: Whether the file has not changed, and is replaced.
    public func replace(with bytes: [UInt8]) throws(LockboxError) -> Bool {
        var new = try AtomicFile(path, like: status, calls)
        try new.write(bytes)
        // A change that another program makes after this check is lost; that cannot be prevented. Compares
        // the bytes, because two changes can have the same timestamp.
        guard let latest = try ReplaceableFile(path, calls), latest.bytes == self.bytes,
            FileIdentity(latest.status) == FileIdentity(status)
        else { return false }
        try new.finish()
        return true
    }

    /// Whether nothing has this path, rather than something that cannot be looked up: a pipe of `/dev/fd`, or a link whose
    /// target is not there, such as one to a file system that is not mounted.
    private static func isAbsent(_ path: String, _ calls: SystemCalls) throws(LockboxError) -> Bool {
        var status = stat()
        let result = calls.stat(path, at: SystemCalls.currentDirectory, &status)
        if result == 0 { return false }
        guard -result == Int(ENOENT) || -result == Int(ENOTDIR) else {
            throw LockboxError.storageFailure(operation: "stat", path: path, errno: CInt(-result))
        }
        let parent = Path.parent(of: path)
        guard let resolved = realpath(parent.isEmpty ? "/" : parent, nil) else {
            return try isAbsent(parent, calls)
        }
        free(resolved)
        return true
    }

    private static func checkCanBeReplaced(_ file: CInt, _ status: stat, _ path: String) throws(LockboxError)
    {
        let reason: String? =
            if status.st_mode & S_IFMT != S_IFREG {
                "it is \(FileIdentity.kind(status)), not a regular file; name another one"
            } else if status.st_nlink > 1 {
                // The items would remain under the file's other names.
                "it has \(status.st_nlink) hard links; remove the others"
            } else if has_access_control_list(file) != 0 {
                // Without it, others might be able to read the new file.
                "it has an access control list, which its replacement would not have; remove it"
            } else {
                nil
            }
        if let reason { throw LockboxError.unsafePermissions(path: path, reason: reason) }
    }

    private static func read(_ file: CInt, _ size: Int, _ path: String, _ calls: SystemCalls)
        throws(LockboxError)
        -> [UInt8]
    {
        guard size <= ArchivedValue.maximumSize else {
            throw LockboxError.sourceRefused(path: path, reason: "it is larger than 16 MiB")
        }
        var bytes = [UInt8](repeating: 0, count: size)
        let count = try bytes.withUnsafeMutableBufferPointer { (buffer) throws(LockboxError) in
            try calls.readAll(file, into: UnsafeMutableRawBufferPointer(buffer), path: path)
        }
        bytes.removeLast(size - count)
        return bytes
    }
}
