package import LockboxCore
package import LockboxPlatform

/// Writes a file outside a store under a temporary name in the same folder, and renames it when it is complete.
package struct AtomicFile: ~Copyable {
    private let destination: String
    private let temporary: String
    private let file: CInt
    private let calls: SystemCalls
    private var isFinished: Bool

    /// - Parameter like: The status of a file whose owner and permissions the new one gets. If nil, the mode is
    ///   0600.
    package init(_ path: String, like status: stat? = nil, _ calls: SystemCalls) throws(LockboxError) {
        // Nothing is set before the last error: it would be destroyed twice.
        let destination = try Path.absolute(path)
        let temporary = "\(destination).\(String(UInt64.random(in: .min ... .max), radix: 16))"
        file = try Self.create(temporary, like: status, calls: calls)
        self.destination = destination
        self.temporary = temporary
        self.calls = calls
        isFinished = false
    }

    /// Standard output in the place of a file. It is whole at once, and what it becomes is not synchronized.
    package init(standardOutput calls: SystemCalls) throws(LockboxError) {
        file = CInt(try check(errnoIfNegative(dup(STDOUT_FILENO)), "dup", "-"))
        (destination, temporary) = ("-", "standard output")
        self.calls = calls
        isFinished = true
    }

    private static func create(_ path: String, like status: stat?, calls: SystemCalls)
        throws(LockboxError) -> CInt
    {
        let flags = O_WRONLY | O_CREAT | O_EXCL
        let result = calls.open(path, at: SystemCalls.currentDirectory, flags, mode: 0o600)
        let file = CInt(try check(result, "open", path))
        do {
            if let status { try copyOwner(of: status, to: file, path: path, calls: calls) }
            // Whatever the umask is.
            if status == nil { try check(calls.chmod(file, mode: 0o600), "chmod", path) }
        } catch {
            calls.close(file)
            _ = calls.unlink(path, at: SystemCalls.currentDirectory)
            throw error
        }
        return file
    }

    private static func copyOwner(of status: stat, to file: CInt, path: String, calls: SystemCalls)
        throws(LockboxError)
    {
        if status.st_uid != geteuid() || status.st_gid != getegid() {
            try check(errnoIfNegative(fchown(file, status.st_uid, status.st_gid)), "chown", path)
        }
        try check(calls.chmod(file, mode: status.st_mode & 0o7777), "chmod", path)
    }

    package func write(_ bytes: [UInt8]) throws(LockboxError) {
        try bytes.withUnsafeBufferPointer { bytes throws(LockboxError) in
            try calls.writeAll(UnsafeRawBufferPointer(bytes), to: file, path: temporary)
        }
    }

    package mutating func finish() throws(LockboxError) {
        if isFinished { return }
        try check(calls.fsync(file), "fsync", temporary)
        let current = SystemCalls.currentDirectory
        try check(calls.rename(temporary, at: current, to: destination, at: current), "rename", destination)
        isFinished = true
        try calls.synchronizeParent(of: destination)
    }

    deinit {
        calls.close(file)
        if !isFinished { _ = calls.unlink(temporary, at: SystemCalls.currentDirectory) }
    }
}
