import LockboxCore
import LockboxFiles

/// The files in `tmp`: temporary files of running writers, and those that killed writers left behind.
enum Leftovers {
    /// Returns `<namespace or "root">.<random>`. The namespace's lock is held while the file exists.
    static func temporaryName(namespace: String?) -> String {
        "\(namespace ?? "root").\(String(UInt64.random(in: .min ... .max), radix: 16))"
    }

    /// Removes the files of killed writers. If a file's lock is free, its writer was killed.
    static func sweep(_ root: Directory) throws {
        guard let temporary = try root.directory("tmp", creating: false) else { return }
        let items = try root.directory("items", creating: false)
        for name in try temporary.names() {
            let namespace = String(name.prefix { $0 != "." })
            // A writer creates its namespace's folder first. If there is none, there is no writer, and the
            // root's lock will do.
            let folder = try? items?.directory(namespace, creating: false) ?? root
            guard let folder, let lock = try? DirectoryLock.attempt(folder) else { continue }
            _ = root.calls.unlink(name, at: temporary.descriptor)
            lock.release()
        }
    }
}
