import LockboxCore
import LockboxFiles

/// Files in `tmp`: on their way to their names, or left by writers that were killed.
enum Leftovers {
    /// `<namespace or "root">.<random>`: the namespace's lock is held while the file is there.
    static func temporaryName(namespace: String?) -> String {
        "\(namespace ?? "root").\(String(UInt64.random(in: .min ... .max), radix: 16))"
    }

    /// Removes what killed writers left. A temporary file whose lock can be had belongs to nobody.
    static func sweep(_ root: Directory) throws {
        guard let temporary = try root.directory("tmp", creating: false) else { return }
        let items = try root.directory("items", creating: false)
        for name in try temporary.names() {
            let namespace = String(name.prefix { $0 != "." })
            // A writer makes its namespace's folder first: where there is none, there is no writer.
            let folder = try? items?.directory(namespace, creating: false) ?? root
            guard let folder, let lock = try? DirectoryLock.attempt(folder) else { continue }
            _ = root.calls.unlink(name, at: temporary.descriptor)
            lock.release()
        }
    }
}
