import LockboxCore
import LockboxPlatform

/// Paths as texts.
package enum Path {
    /// Without a trailing slash, behind which a symbolic link would be followed.
    package static func absolute(_ path: String) -> String {
        var path = path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return path
    }

    /// Empty for a path in the root, or without a folder.
    package static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return "" }
        return String(path[..<slash])
    }
}

extension SystemCalls {
    /// Synchronises the folder that a path stands in. It may be reached through a symbolic link: hence the dot.
    package func synchronizeParent(of path: String, at parent: CInt = SystemCalls.currentDirectory) throws {
        let above = parent == SystemCalls.currentDirectory ? "\(Path.parent(of: path))/." : "."
        let opened = open(above, at: parent, O_RDONLY | O_DIRECTORY)
        let descriptor = CInt(try check(opened, "open", Path.parent(of: path)))
        defer { close(descriptor) }
        try check(fsync(descriptor), "fsync", Path.parent(of: path))
    }
}
