public import LockboxCore
import LockboxPlatform

/// A file of other programs, which is read as a whole and replaced by another.
@_spi(Extensions)
public struct ReplaceableFile: Sendable {
    /// An absolute path without links.
    public let path: String
    /// All that the file held when it was read.
    public let bytes: [UInt8]

    private let status: stat
    private let place: ResolvedPath
    private let calls: SystemCalls

    /// Reads a file. Returns nil if nothing has this path.
    ///
    /// A link is followed if it is root's, this user's, or of the user whose file it leads to: otherwise another user would choose
    /// which file is read and replaced.
    ///
    /// - Throws: ``LockboxError/unsafePermissions(path:reason:)`` if it cannot be replaced;
    ///   ``LockboxError/sourceRefused(path:reason:)`` if it has more bytes than a value can have; another ``LockboxError`` if it
    ///   cannot be read.
    public init?(_ path: String) throws(LockboxError) { try self.init(path, SystemCalls()) }

    package init?(_ path: String, _ calls: SystemCalls) throws(LockboxError) {
        guard let place = try ResolvedPath(path, calls) else { return nil }
        let opened = calls.open(place.name, at: place.folder.descriptor, O_RDONLY)
        let file = CInt(try check(opened, "open", place.path))
        defer { calls.close(file) }
        var status = stat()
        try check(calls.fstat(file, &status), "fstat", place.path)
        try Self.checkLinks(place, status, calls.world.user)
        try Self.checkCanBeReplaced(file, status, place.path, calls)
        let bytes = try Self.read(file, Int(status.st_size), place.path, calls)
        var now = stat()
        try check(calls.stat(place.name, at: place.folder.descriptor, &now), "stat", place.path)
        guard FileState(now) == FileState(status) else {
            throw LockboxError.storageFailure(operation: "read", path: .other(place.path), errno: EBUSY)
        }
        (self.path, self.bytes, self.status) = (place.path, bytes, status)
        (self.place, self.calls) = (place, calls)
    }

    /// Returns an absolute path of the same file.
    public static func absolutePath(_ path: String) throws(LockboxError) -> String { try Path.absolute(path) }

    /// Checks that the file belongs to this process's user.
    ///
    /// - Throws: ``LockboxError/unsafePermissions(path:reason:)``.
    public func checkOwner() throws(LockboxError) {
        if status.st_uid == calls.world.user { return }
        throw LockboxError.unsafePermissions(
            path: .other(path),
            reason:
                "it belongs to user \(status.st_uid), and this process runs as \(calls.world.user); run it as the owner"
        )
    }

    /// Checks that this process can replace the file: makes an empty one beside it, with its owner and permissions, and removes that.
    ///
    /// - Throws: The error that ``replace(with:)`` would throw.
    public func checkReplacement() throws(LockboxError) { _ = try replacement() }

    /// Replaces the file, unless it has changed. The new one has the same owner and permissions.
    ///
    /// - Returns: Whether the file has not changed, and is replaced.
    public func replace(with bytes: [UInt8]) throws(LockboxError) -> Bool {
        var new = try replacement()
        try new.write(bytes)
        // A change that another program makes after this check is lost; that cannot be prevented. Compares
        // the bytes, because two changes can have the same timestamp.
        guard let latest = try ReplaceableFile(path, calls), latest.bytes == self.bytes,
            FileIdentity(latest.status) == FileIdentity(status)
        else { return false }
        try new.finish()
        return true
    }

    private func replacement() throws(LockboxError) -> AtomicFile {
        try AtomicFile(replacing: place, status, calls)
    }

    private static func checkLinks(_ place: ResolvedPath, _ status: stat, _ user: uid_t) throws(LockboxError)
    {
        let trusted = [0, user, status.st_uid]
        guard let link = place.links.first(where: { !trusted.contains($0.owner) }) else { return }
        throw LockboxError.unsafePermissions(
            path: .other(link.path),
            reason:
                "it is a link of user \(link.owner), and leads to a file of user \(status.st_uid); name the file itself"
        )
    }

    private static func checkCanBeReplaced(_ file: CInt, _ status: stat, _ path: String, _ calls: SystemCalls)
        throws(LockboxError)
    {
        let reason: String? =
            if status.st_mode & S_IFMT != S_IFREG {
                "it is \(FileIdentity.kind(status)), not a regular file; name another one"
            } else if status.st_nlink > 1 {
                // The items would remain under the file's other names.
                "it has \(status.st_nlink) hard links; remove the others"
            } else if calls.world.hasAccessControlList(file) {
                // Without it, others might be able to read the new file.
                "it has an access control list, which its replacement would not have; remove it"
            } else {
                nil
            }
        if let reason { throw LockboxError.unsafePermissions(path: .other(path), reason: reason) }
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
