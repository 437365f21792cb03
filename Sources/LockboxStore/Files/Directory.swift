import LockboxCore
import LockboxPlatform

/// An open and checked folder of the store: a real directory that belongs to this user and that no other user can
/// write to.
///
/// All files in it are opened relative to its descriptor, so its path is never resolved a second time.
final class Directory: Sendable {
    let path: String
    let descriptor: CInt
    let calls: SystemCalls
    let identity: FileIdentity
    let queue = LockQueue()
    /// This process's user when the folder was opened, kept to avoid a system call for every file.
    private let owner: uid_t
    private let pathOfFiles: String
    let isOnFUSE: Bool

    private init(path: String, descriptor: CInt, calls: SystemCalls, status: stat) {
        self.path = path
        self.descriptor = descriptor
        self.calls = calls
        identity = FileIdentity(status)
        owner = status.st_uid
        pathOfFiles = path + "/"
        isOnFUSE = calls.isOnFUSE(descriptor)
    }

    deinit { calls.close(descriptor) }

    /// Opens a folder, and creates it first (mode 0700) if `creating` is true. Returns nil if it does not
    /// exist.
    static func open(
        _ name: String,
        at parent: CInt,
        path: String,
        calls: SystemCalls,
        creating: Bool
    ) throws(LockboxError) -> Directory? {
        var result = calls.open(name, at: parent, O_RDONLY | O_DIRECTORY)
        if result == -Int(ENOENT), creating {
            let made = calls.mkdir(name, at: parent, mode: 0o700)
            if made != -Int(EEXIST) {
                try check(made, "mkdir", path)
                try check(calls.chmod(name, at: parent, mode: 0o700), "chmod", path)  // whatever the umask
            }
            // Makes the new folder survive a power cut, also if another process has just created it.
            try calls.synchronizeParent(of: path, at: parent)
            result = calls.open(name, at: parent, O_RDONLY | O_DIRECTORY)
        }
        if result == -Int(ENOENT) { return nil }
        if result == -Int(ELOOP) || result == -Int(ENOTDIR) {
            guard let kind = FileIdentity.kind(of: name, at: parent, calls: calls) else {
                throw LockboxError.storageFailure(operation: "open", path: .other(path), errno: CInt(-result))
            }
            throw LockboxError.unsafePermissions(
                path: .other(path),
                reason: "it is \(kind), not a folder; replace it with one"
            )
        }
        let descriptor = CInt(try check(result, "open", path))
        do {
            var status = stat()
            try check(calls.fstat(descriptor, &status), "fstat", path)
            try checkPermissions(status, path, calls.world.user)
            return Directory(path: path, descriptor: descriptor, calls: calls, status: status)
        } catch {
            calls.close(descriptor)
            throw error
        }
    }

    /// Opens a subfolder.
    func directory(_ name: String, creating: Bool) throws(LockboxError) -> Directory? {
        try Directory.open(name, at: descriptor, path: "\(path)/\(name)", calls: calls, creating: creating)
    }

    private static func checkPermissions(_ status: stat, _ path: String, _ user: uid_t) throws(LockboxError) {
        let reason: String? =
            if status.st_uid != user {
                "it belongs to user \(status.st_uid), and this process runs as \(user); run it as the owner, or chown it"
            } else if status.st_mode & 0o022 != 0 {
                "its mode \(octal(status.st_mode)) lets others write to it; \(modeAdvice(700))"
            } else {
                nil
            }
        if let reason { throw LockboxError.unsafePermissions(path: .other(path), reason: reason) }
    }

    // MARK: Files

    /// Calls `body` with at least `minimum` bytes of a checked file, or all of them if there are fewer, and
    /// always enough to compute the revision. Returns nil if the file does not exist.
    func readRecord<Result>(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result? {
        let name = record.name
        var isBody = false
        do {
            guard let file = try open(name) else { return nil }
            defer { calls.close(file) }
            let size = Int(try checkedStatus(of: file, name).st_size)
            guard size <= maximum else {
                throw LockboxError.corrupt(record: .other(name), reason: "it is too large")
            }
            let count = min(size, max(minimum, RecordRevision.prefixLength))
            return try withUnsafeTemporaryAllocation(byteCount: count, alignment: 16) { buffer in
                if try calls.readAll(file, into: buffer, path: filePath(name)) < count {
                    throw LockboxError.corrupt(record: .other(name), reason: "it shrank while it was read")
                }
                isBody = true
                return try body(RecordContents(bytes: buffer.part(..<count), length: size))
            }
        } catch let error as LockboxError where !isBody {
            throw error.ofReading(record.subject(at: filePath(name)))
        }
    }

    /// Returns whether an entry of that name exists, whatever its type.
    func holds(_ name: String) throws(LockboxError) -> Bool {
        var status = stat()
        let result = calls.stat(name, at: descriptor, &status)
        if result == -Int(ENOENT) { return false }
        try check(result, "stat", filePath(name))
        return true
    }

    /// Opens a file to read it. Returns nil if it does not exist.
    func open(_ name: String) throws(LockboxError) -> CInt? {
        let result = calls.open(name, at: descriptor, O_RDONLY)
        return result == -Int(ENOENT) ? nil : CInt(try checkOpened(result, name))
    }

    /// Creates files (mode 0600), and synchronizes them to disk after all are written, which is faster than one by
    /// one. Returns a descriptor for each, which holds the file's lock. On an error, the caller removes the files.
    func writeFiles(_ files: [(name: String, bytes: [UInt8])]) throws(LockboxError) -> [CInt] {
        var (open, locks): ([CInt], [CInt]) = ([], [])
        do {
            for file in files { try open.append(create(file.name, file.bytes)) }
            // Called only once: a second fsync may not report the first one's failure.
            for (file, name) in zip(open, files.map(\.name)) {
                try check(calls.fsync(file), "fsync", filePath(name))
            }
            // Closed before they are renamed: some file systems report a full disk only now.
            for name in files.reversed().map(\.name) {
                locks.append(CInt(try check(calls.duplicate(open[open.count - 1]), "fcntl", filePath(name))))
                try check(calls.close(open.removeLast()), "close", filePath(name))
            }
            return locks
        } catch {
            for file in open + locks { calls.close(file) }
            throw error
        }
    }

    /// Returns the open file, with its lock.
    func create(_ name: String, _ bytes: [UInt8]) throws(LockboxError) -> CInt {
        let result = calls.open(name, at: descriptor, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        let file = CInt(try check(result, "open", filePath(name)))
        do {
            // A sweeper may have it for a moment, and remove the file: then it is written again.
            let locked = calls.lock(file)
            if locked != -Int(EWOULDBLOCK) { try check(locked, "flock", filePath(name)) }
            // Whatever the umask. To change the mode takes longer than to look at it.
            var status = stat()
            try check(calls.fstat(file, &status), "fstat", filePath(name))
            if status.st_mode & 0o7777 != 0o600 {
                try check(calls.chmod(file, mode: 0o600), "chmod", filePath(name))
            }
            try bytes.withUnsafeBufferPointer { bytes throws(LockboxError) in
                try calls.writeAll(UnsafeRawBufferPointer(bytes), to: file, path: filePath(name))
            }
            return file
        } catch {
            calls.close(file)
            throw error
        }
    }

    /// Removes a file, a link or an empty folder. Does nothing if there is none. Returns false for a folder that
    /// is not empty.
    func removeEntry(_ name: String) throws(LockboxError) -> Bool {
        var result = calls.unlink(name, at: descriptor)
        // POSIX has EPERM for a folder.
        if result == -Int(EISDIR) || result == -Int(EPERM),
            FileIdentity.kind(of: name, at: descriptor, calls: calls) == FileIdentity.folder
        {
            result = calls.removeFolder(name, at: descriptor)
            if result == -Int(ENOTEMPTY) || result == -Int(EEXIST) { return false }
        }
        if result != -Int(ENOENT) { try check(result, "unlink", filePath(name)) }
        return true
    }

    /// Removes a temporary file, ignoring errors.
    func remove(_ name: String) { _ = calls.unlink(name, at: descriptor) }

    /// Makes creations, renames and removals in this folder survive a power cut.
    func synchronize() throws(LockboxError) {
        try check(calls.fsync(descriptor), "fsync", path)
    }

    /// The same after a commit, which others can see already.
    ///
    /// - Throws: `outcomeUnknown`.
    func synchronizeChanges() throws(LockboxError) {
        let result = calls.fsync(descriptor)
        if result >= 0 { return }
        let reason = LockboxError.reason("fsync", CInt(-result))
        throw LockboxError.outcomeUnknown(record: path, reason: reason, wasMade: true)
    }

    /// Returns the names of all entries. Empty if the folder has been removed.
    ///
    /// On btrfs, a file that is replaced while the folder is being read may be missing.
    func names() throws(LockboxError) -> NameList {
        var names = NameList()
        let own = calls.open(".", at: descriptor, O_RDONLY | O_DIRECTORY)
        if own == -Int(ENOENT) { return names }
        let result = calls.names(in: CInt(try check(own, "open", path)), &names)
        try check(result, "readdir", path)
        return names
    }

    /// Returns the status of a file. Throws unless it is a regular file that belongs to this user and that others cannot
    /// access. It may have other names, as in a copy made of hard links: records are only read and replaced, never written to.
    func checkedStatus(of file: CInt, _ name: String) throws(LockboxError) -> stat {
        var status = stat()
        try check(calls.fstat(file, &status), "fstat", filePath(name))
        let reason: String? =
            if status.st_mode & S_IFMT != S_IFREG {
                "it is \(FileIdentity.kind(status)), not a regular file; replace it with one"
            } else if status.st_uid != owner {
                "it belongs to user \(status.st_uid), and this process runs as \(owner); run it as the owner, or chown it"
            } else if status.st_mode & 0o077 != 0 {
                "its mode \(octal(status.st_mode)) lets others use it; \(modeAdvice(600))"
            } else {
                nil
            }
        if let reason { throw LockboxError.unsafePermissions(path: .other(filePath(name)), reason: reason) }
        return status
    }

    /// Returns the descriptor of a file that was just opened, or throws the error.
    func checkOpened(_ result: Int, _ name: String) throws(LockboxError) -> Int {
        if result == -Int(ELOOP) || result == -Int(ENXIO) || result == -Int(EISDIR) {
            let kind = FileIdentity.kind(of: name, at: descriptor, calls: calls) ?? "something else"
            throw LockboxError.unsafePermissions(
                path: .other(filePath(name)),
                reason: "it is \(kind), not a regular file; replace it with one"
            )
        }
        return try check(result, "open", filePath(name))
    }

    func filePath(_ name: String) -> String { pathOfFiles + name }
}

/// How a file gets another mode.
func modeAdvice(_ mode: Int) -> String {
    "chmod \(mode) it or, if its mount gives every file that mode, mount it with umask=077, or CIFS with "
        + "file_mode=0600,dir_mode=0700"
}

private func octal(_ mode: mode_t) -> String { "0" + String(mode & 0o7777, radix: 8) }
