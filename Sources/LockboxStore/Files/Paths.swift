package import LockboxCore
package import LockboxPlatform

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

    /// - Throws: `invalidLocation` for what a shell or a template was to complete, unless a folder has that name.
    static func checkIsWrittenOut(_ path: String) throws(LockboxError) {
        guard let sign = Unexpanded.sign(in: path) else { return }
        var status = stat()
        if isAbsolute(path), SystemCalls().stat(path, at: SystemCalls.currentDirectory, &status) >= 0 {
            return
        }
        throw LockboxError.invalidLocation(location: path, reason: "it \(sign)")
    }

    private static func currentFolder(for path: String) throws(LockboxError) -> String {
        var code: CInt = 0
        guard let folder = world.currentFolder(&code) else {
            let reason =
                code == ENOENT
                ? "the current folder was removed; give an absolute path"
                : "the current folder is unknown: \(String(cString: strerror(code)))"
            throw LockboxError.invalidLocation(location: path, reason: reason)
        }
        if let text = String(validating: folder, as: UTF8.self) { return text }
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

/// The user's home folder.
package enum HomeFolder {
    /// Returns an environment variable.
    package typealias Variables = (String) throws(LockboxError) -> String?

    /// Returns `HOME`, or what the user database says.
    ///
    /// - Throws: `invalidLocation` if there is none, or if it is not absolute: each current folder would have a store of its own.
    package static func path(_ environment: Variables) throws(LockboxError) -> String {
        if let home = try environment("HOME") { return try checked(home, "HOME") }
        return try checked(ofAccount(), "the home folder in /etc/passwd")
    }

    /// Returns what a file in the format of passwd(5) says.
    package static func ofUser(_ user: uid_t, in file: String) throws(LockboxError) -> String {
        let lines = SystemCalls().contents(of: file)?.split(separator: UInt8(ascii: "\n")) ?? []
        for line in lines {
            let fields = line.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
            guard fields.count == 7, String(decoding: fields[2], as: UTF8.self) == "\(user)" else { continue }
            if let home = String(validating: fields[5], as: UTF8.self) { return home }
            throw unknown("the home folder of user \(user) in \(file) is not UTF-8")
        }
        throw unknown("HOME is not set, and \(file) has no user \(user)")
    }

    private static func unknown(_ reason: String) -> LockboxError {
        .invalidLocation(location: "~", reason: "\(reason); set LOCKBOX_DIRECTORY")
    }

    /// Returns an absolute path, or throws.
    package static func checked(_ path: String, _ name: String) throws(LockboxError) -> String {
        if Path.isAbsolute(path) { return path }
        throw LockboxError.invalidLocation(
            location: path,
            reason: "\(name) is not an absolute path; correct it, or set LOCKBOX_DIRECTORY"
        )
    }
}

/// Identifies a file by its device and inode.
package struct FileIdentity: Equatable, Sendable {
    package let device: Int64
    package let inode: Int64

    package init(_ status: stat) {
        device = Int64(truncatingIfNeeded: status.st_dev)
        inode = Int64(truncatingIfNeeded: status.st_ino)
    }

    package static let plainFile = "a regular file"
    package static let folder = "a folder"

    /// Returns nil if there is no entry of that name.
    package static func kind(of name: String, at directory: CInt, calls: SystemCalls) -> String? {
        var status = stat()
        return calls.stat(name, at: directory, &status) == 0 ? kind(status) : nil
    }

    package static func kind(_ status: stat) -> String {
        switch status.st_mode & S_IFMT {
        case S_IFREG: plainFile
        case S_IFDIR: folder
        case S_IFLNK: "a symbolic link"
        case S_IFIFO: "a FIFO"
        case S_IFSOCK: "a socket"
        case S_IFBLK, S_IFCHR: "a device"
        default: "something else"
        }
    }
}

/// A file as it was when it was looked at.
struct FileState: Equatable, Sendable {
    private let identity: FileIdentity
    private let size: off_t
    private let modified: [Int]

    init(_ status: stat) {
        let time = modificationTime(status)
        (identity, size) = (FileIdentity(status), status.st_size)
        modified = [Int(time.tv_sec), Int(time.tv_nsec)]
    }
}

/// The folder of a store.
struct StoreLocation: Sendable {
    /// An absolute path. If no store can be there, what was given.
    let directory: String
    /// Why no store can be there.
    let refusal: LockboxError?
    /// Whether the environment says only whose data it is among.
    let isInHome: Bool
    /// The home folder of the user whose data it is among.
    let home: String?

    private init(
        _ name: String,
        isInHome: Bool = false,
        home: String? = nil,
        _ path: () throws(LockboxError) -> String
    ) {
        (self.isInHome, self.home) = (isInHome, home)
        do throws(LockboxError) { (directory, refusal) = (try path(), nil) } catch {
            (directory, refusal) = (name, error)
        }
    }

    /// - Parameter directory: An absolute path, one that begins with `~/`, or one relative to the current folder that begins
    ///   with `./` or `../`.
    init(
        _ directory: String,
        _ environment: HomeFolder.Variables = { (name) throws(LockboxError) in try Environment[name] }
    ) {
        let first = String(Substring(directory.utf8.prefix { $0 != UInt8(ascii: "/") }))
        let isInHome = first == "~"
        let home = isInHome ? try? HomeFolder.path(environment) : nil
        self.init(directory, isInHome: isInHome, home: home) { () throws(LockboxError) in
            try Path.checkIsWrittenOut(directory)
            if isInHome {
                return try Path.absolute(HomeFolder.path(environment) + directory.dropFirst())
            }
            let reason: String? =
                if directory.isEmpty {
                    "it is empty, which would be the current folder; give a path"
                } else if first.utf8.first == UInt8(ascii: "~") {
                    "it is the home folder of another user to a shell; give an absolute path"
                } else if first.utf8.contains(UInt8(ascii: ":")) {
                    "it looks like an address; give a path, which begins with ./ if it is relative"
                } else if !["", ".", ".."].contains(first) {
                    // In each current folder it would be another store.
                    "it is a relative path, which begins with ./"
                } else {
                    nil
                }
            if let reason { throw LockboxError.invalidLocation(location: directory, reason: reason) }
            return try Path.absolute(directory)
        }
    }

    /// The location of the user's store if the app does not specify one: `LOCKBOX_DIRECTORY`; otherwise `lockbox` in
    /// `STATE_DIRECTORY` (systemd), in `XDG_DATA_HOME`, or in `~/.local/share`. On Apple's systems, `~/Library/Application
    /// Support` replaces the last two.
    static func standard(
        _ environment: HomeFolder.Variables = { (name) throws(LockboxError) in try Environment[name] }
    ) -> StoreLocation {
        do throws(LockboxError) {
            if let directory = try environment("LOCKBOX_DIRECTORY") {
                return StoreLocation(directory, environment)
            }
            // systemd separates multiple folders with colons.
            if let state = try environment("STATE_DIRECTORY")?.split(separator: ":").first {
                return StoreLocation("\(state)") { () throws(LockboxError) in
                    try Path.checkIsWrittenOut(String(state))
                    return try Path.absolute(
                        "\(HomeFolder.checked(String(state), "STATE_DIRECTORY"))/lockbox"
                    )
                }
            }
            let home = try? HomeFolder.path(environment)
            return StoreLocation("~", isInHome: true, home: home) { () throws(LockboxError) in
                try Path.absolute("\(HomeFolder.userData(environment))/lockbox")
            }
        } catch {
            return StoreLocation("~") { () throws(LockboxError) in throw error }
        }
    }
}
