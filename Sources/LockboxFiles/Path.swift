package import LockboxCore
import LockboxPlatform

/// Functions on paths, which are bytes: a slash is one also before a combining mark.
package enum Path {
    private static let slash = UInt8(ascii: "/")

    package static func isAbsolute(_ path: String) -> Bool { path.utf8.first == slash }

    /// Returns the path without a trailing slash, which would make a symbolic link be followed.
    ///
    /// - Throws: `invalidLocation` if the system would see another path, or if there is no current folder to resolve it against.
    package static func absolute(_ path: String) throws(LockboxError) -> String {
        if path.utf8.contains(0) {
            throw LockboxError.invalidLocation(location: path, reason: "its name has a zero byte")
        }
        var path = try isAbsolute(path) ? path : "\(currentFolder(for: path))/\(path)"
        while path.utf8.count > 1, path.utf8.last == slash { path.unicodeScalars.removeLast() }
        return path
    }

    private static func currentFolder(for path: String) throws(LockboxError) -> String {
        guard let folder = getcwd(nil, 0) else {
            let reason =
                errno == ENOENT
                ? "the current folder was removed; give an absolute path"
                : "the current folder is unknown: \(String(cString: strerror(errno)))"
            throw LockboxError.invalidLocation(location: path, reason: reason)
        }
        defer { free(folder) }
        if let text = String(validatingCString: folder) { return text }
        throw LockboxError.invalidLocation(
            location: path,
            reason: "the name of the current folder is not UTF-8; give an absolute path"
        )
    }

    /// Empty if the parent is the root, or if the path has no parent.
    package static func parent(of path: String) -> String {
        guard let index = path.utf8.lastIndex(of: slash), index != path.startIndex else { return "" }
        return String(path[..<index])
    }

    /// The last part of the path.
    package static func name(of path: String) -> String {
        path.utf8.lastIndex(of: slash).map { String(path[path.utf8.index(after: $0)...]) } ?? path
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
