import CLinux
import LockboxCore
import LockboxFiles
import LockboxPlatform

/// The entries of a file that other programs also read and write.
struct FileItems: SourceItems {
    private let path: String
    private let format: SourceFile.Format
    private let calls: SystemCalls
    /// Nil if there is no file.
    private let file: SourceFile?

    init(path: String, format: SourceFile.Format, calls: SystemCalls = SystemCalls()) throws {
        self.path = try Path.absolute(path)
        self.format = format
        self.calls = calls
        file = try Self.read(self.path, format, calls)?.file
    }

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { file?.names ?? [] }

    func holds(_ key: String) -> Bool { file?.contains(key) ?? false }

    func item(forKey key: String) throws -> SourceItem? {
        guard let file, file.contains(key) else { return nil }
        return SourceItem(.property(try file.value(forName: key)))
    }

    /// Works on the file's current contents, so that other programs' changes are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        guard let (current, status, destination) = try Self.read(path, format, calls) else { return [] }
        let there = items.filter { current.contains($0.key) }
        let same = there.filter { key, item in
            (try? current.value(forName: key)).map { SourceValue.property($0) == item.value } ?? false
        }
        if !same.isEmpty {
            var new = try AtomicFile(destination, like: status, calls)
            try new.write(Self.without(Set(same.keys), current, destination))
            // A change that another program makes after this check is lost; that cannot be prevented. Compares
            // the bytes, because two changes can have the same timestamp.
            guard let latest = try Self.read(path, format, calls), latest.file.bytes == current.bytes,
                FileIdentity(latest.status) == FileIdentity(status)
            else { return Set(there.keys) }
            try new.finish()
        }
        return Set(there.keys).subtracting(same.keys)
    }

    private static func without(_ names: Set<String>, _ file: SourceFile, _ path: String) throws -> [UInt8] {
        do { return try file.removing(names) } catch {
            throw LockboxError.sourceRefused(path: path, reason: error.description)
        }
    }

    private static func read(
        _ path: String,
        _ format: SourceFile.Format,
        _ calls: SystemCalls
    ) throws -> (file: SourceFile, status: stat, destination: String)? {
        // Resolves symbolic links, because the file must be replaced, not the link.
        guard let resolved = realpath(path, nil) else {
            let code = errno
            if code != ENOENT {
                throw LockboxError.storageFailure(operation: "realpath", path: path, errno: code)
            }
            if try isAbsent(path, calls) { return nil }
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
        try checkCanBeReplaced(file, status, destination)
        let bytes = try read(file, Int(status.st_size), destination, calls)
        guard try isUnchanged(destination, since: status, calls) else {
            throw LockboxError.storageFailure(operation: "read", path: destination, errno: EBUSY)
        }
        do { return (try SourceFile(bytes: bytes, format: format), status, destination) } catch {
            throw LockboxError.sourceRefused(path: destination, reason: error.description)
        }
    }

    /// Whether nothing has this path, rather than something that cannot be looked up: a pipe of `/dev/fd`, or a link whose
    /// target is not there, such as one to a file system that is not mounted.
    private static func isAbsent(_ path: String, _ calls: SystemCalls) throws -> Bool {
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

    private static func checkCanBeReplaced(_ file: CInt, _ status: stat, _ path: String) throws {
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

    private static func isUnchanged(_ path: String, since before: stat, _ calls: SystemCalls) throws -> Bool {
        var now = stat()
        try check(calls.stat(path, at: SystemCalls.currentDirectory, &now), "stat", path)
        let (time, timeBefore) = (modificationTime(now), modificationTime(before))
        return FileIdentity(now) == FileIdentity(before) && now.st_size == before.st_size
            && time.tv_sec == timeBefore.tv_sec && time.tv_nsec == timeBefore.tv_nsec
    }

    private static func read(_ file: CInt, _ size: Int, _ path: String, _ calls: SystemCalls) throws
        -> [UInt8]
    {
        guard size <= ArchivedValue.maximumSize else {
            throw LockboxError.sourceRefused(path: path, reason: "it is larger than 16 MiB")
        }
        return try [UInt8](unsafeUninitializedCapacity: size) { buffer, filled in
            let buffer = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[..<size]))
            filled = try calls.readAll(file, into: buffer, path: path)
        }
    }
}
