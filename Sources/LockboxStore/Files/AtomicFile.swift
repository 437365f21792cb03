package import LockboxCore
import LockboxPlatform

/// Writes a file outside a store under a temporary name in the same folder, and renames it when it is complete.
package struct AtomicFile: ~Copyable {
    /// The name in the folder, or the path.
    private let destination: String
    private let temporary: String
    /// If nil, the names are paths.
    private let folder: OpenFolder?
    /// For errors.
    private let path: String
    private let file: CInt
    private let calls: SystemCalls
    private var isFinished: Bool

    /// A new file with the mode 0600.
    package init(_ path: String, _ calls: SystemCalls) throws(LockboxError) {
        let path = try Path.absolute(path)
        try self.init(path, in: nil, path: path, like: nil, calls)
    }

    /// A new file in the place of another, with its owner and permissions.
    init(replacing place: ResolvedPath, _ status: stat, _ calls: SystemCalls) throws(LockboxError) {
        try self.init(place.name, in: place.folder, path: place.path, like: status, calls)
    }

    private init(
        _ destination: String,
        in folder: OpenFolder?,
        path: String,
        like status: stat?,
        _ calls: SystemCalls
    ) throws(LockboxError) {
        // Nothing is set before the last error: it would be destroyed twice.
        let temporary = "\(destination).\(String(world.randomNumber, radix: 16))"
        file = try Self.create(temporary, in: folder, path: path, like: status, calls)
        self.destination = destination
        self.temporary = temporary
        self.folder = folder
        self.path = path
        self.calls = calls
        isFinished = false
    }

    /// Standard output in the place of a file, which gets everything at the end.
    package init(standardOutput calls: SystemCalls) throws(LockboxError) {
        file = try calls.openTemporary()
        (destination, temporary) = ("standard output", "the copy of standard output")
        (path, folder) = (destination, nil)
        self.calls = calls
        // There is no name to remove.
        isFinished = true
    }

    private static func create(
        _ name: String,
        in folder: OpenFolder?,
        path: String,
        like status: stat?,
        _ calls: SystemCalls
    ) throws(LockboxError) -> CInt {
        let flags = O_WRONLY | O_CREAT | O_EXCL
        let result = calls.open(name, at: descriptor(of: folder), flags, mode: 0o600)
        let parent = Path.parent(of: path)
        let file = CInt(try check(result, "making a file", parent.isEmpty ? "/" : parent))
        do {
            if let status { try copyOwner(of: status, to: file, path: path, calls: calls) }
            // Whatever the umask is.
            if status == nil { try check(calls.chmod(file, mode: 0o600), "chmod", path) }
        } catch {
            calls.close(file)
            _ = calls.unlink(name, at: descriptor(of: folder))
            throw error
        }
        return file
    }

    private static func descriptor(of folder: OpenFolder?) -> CInt {
        folder?.descriptor ?? SystemCalls.currentDirectory
    }

    private static func copyOwner(of status: stat, to file: CInt, path: String, calls: SystemCalls)
        throws(LockboxError)
    {
        if status.st_uid != calls.world.user || status.st_gid != calls.world.group {
            let result = calls.world.chown(file, user: status.st_uid, group: status.st_gid)
            if result == -Int(EPERM) {
                let owner = "user \(status.st_uid) and group \(status.st_gid)"
                throw LockboxError.unsafePermissions(
                    path: .other(path),
                    reason: "its replacement cannot be given to \(owner), as it is; run this as the owner"
                )
            }
            try check(result, "chown", path)
        }
        try check(calls.chmod(file, mode: status.st_mode & 0o7777), "chmod", path)
    }

    package func write(_ bytes: [UInt8]) throws(LockboxError) {
        try bytes.withUnsafeBufferPointer { bytes throws(LockboxError) in
            try calls.writeAll(UnsafeRawBufferPointer(bytes), to: file, path: path)
        }
    }

    package mutating func finish() throws(LockboxError) {
        if isFinished { return try copyToStandardOutput() }
        try check(calls.fsync(file), "fsync", path)
        try rename(to: destination)
    }

    /// Puts it at another path than the one that was given. What is there stays under a second name, in place of what has that one.
    ///
    /// - Returns: Whether something was there.
    package mutating func finish(as path: String, keepingFormerAs second: String) throws(LockboxError) -> Bool
    {
        try check(calls.fsync(file), "fsync", self.path)
        let here = SystemCalls.currentDirectory
        let result = calls.rename(path, at: here, to: second, at: here)
        if result != -Int(ENOENT) { try check(result, "rename", path) }
        do { try rename(to: path) } catch {
            if !isFinished, result >= 0 { _ = calls.rename(second, at: here, to: path, at: here) }
            throw error
        }
        return result >= 0
    }

    private mutating func rename(to destination: String) throws(LockboxError) {
        let parent = Self.descriptor(of: folder)
        try check(calls.rename(temporary, at: parent, to: destination, at: parent), "rename", path)
        isFinished = true
        try calls.synchronizeParent(of: destination, at: parent)
    }

    private func copyToStandardOutput() throws(LockboxError) {
        var (buffer, offset) = ([UInt8](repeating: 0, count: 1 << 16), 0)
        while true {
            let result = buffer.withUnsafeMutableBytes { calls.read(file, into: $0, at: offset) }
            let count = try check(result, "read", temporary)
            if count == 0 { return }
            offset += count
            try buffer.withUnsafeBufferPointer { bytes throws(LockboxError) in
                let bytes = UnsafeRawBufferPointer(bytes).part(..<count)
                try calls.writeAll(bytes, to: STDOUT_FILENO, path: destination)
            }
        }
    }

    deinit {
        calls.close(file)
        if !isFinished { _ = calls.unlink(temporary, at: Self.descriptor(of: folder)) }
    }
}
