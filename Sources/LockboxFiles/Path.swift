package import LockboxCore
import LockboxPlatform

/// Functions on paths.
package enum Path {
    /// Returns the path without a trailing slash, which would make a symbolic link be followed.
    package static func absolute(_ path: String) -> String {
        var path = path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// Empty if the parent is the root, or if the path has no parent.
    package static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return "" }
        return String(path[..<slash])
    }

    /// The last part of the path.
    package static func name(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
    }
}

extension SystemCalls {
    /// Synchronizes the folder that contains a path. The dot makes it work if that folder is a symbolic link.
    package func synchronizeParent(of path: String, at parent: CInt = SystemCalls.currentDirectory)
        throws(LockboxError)
    {
        let above = parent == SystemCalls.currentDirectory ? "\(Path.parent(of: path))/." : "."
        let opened = open(above, at: parent, O_RDONLY | O_DIRECTORY)
        let descriptor = CInt(try check(opened, "open", Path.parent(of: path)))
        defer { close(descriptor) }
        try check(fsync(descriptor), "fsync", Path.parent(of: path))
    }
}
