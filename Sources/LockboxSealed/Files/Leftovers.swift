import LockboxCore
import LockboxFiles
import LockboxPlatform

/// The files in `tmp`: temporary files of running writers, and those that killed writers left behind.
enum Leftovers {
    /// Returns `<namespace or "root">.<random>`. While the file exists, its own lock is held, or the namespace's.
    static func temporaryName(namespace: String?) -> String {
        "\(namespace ?? "root").\(String(UInt64.random(in: .min ... .max), radix: 16))"
    }

    /// Removes the files of killed writers. If both locks are free, the writer was killed.
    static func sweep(_ root: Directory) throws(LockboxError) {
        guard let temporary = try root.directory("tmp", creating: false) else { return }
        let items = try root.directory("items", creating: false)
        for name in try temporary.names() {
            let namespace = String(name.prefix { $0 != "." })
            // If there is no such folder, nobody has its lock, and the root's will do.
            let folder = try? items?.directory(namespace, creating: false) ?? root
            guard let folder, let lock = try? DirectoryLock.attempt(folder) else { continue }
            defer { lock.release() }
            if !isOpen(name, in: temporary) { temporary.remove(name) }
        }
    }

    /// Whether a writer has the file's own lock. A writer that has only just created the file writes it again if it is
    /// removed.
    private static func isOpen(_ name: String, in temporary: Directory) -> Bool {
        let file = temporary.calls.open(name, at: temporary.descriptor, O_RDONLY)
        guard file >= 0 else { return false }
        defer { temporary.calls.close(CInt(file)) }
        return temporary.calls.lock(CInt(file)) == -Int(EWOULDBLOCK)
    }
}
