import LockboxCore
import LockboxPlatform

/// A path that was followed from folder to folder, link by link: none of its folders can become a link afterwards.
struct ResolvedPath: Sendable {
    /// A link on the way.
    struct Link {
        let path: String
        let owner: uid_t
    }

    /// A part of a path that is still to be followed.
    private struct Part {
        let name: String
        let isOfLink: Bool
    }

    /// The folder that holds the entry.
    private(set) var folder: OpenFolder
    /// The entry's name in the folder, which is no link.
    private(set) var name = "."
    private(set) var links: [Link] = []
    private var parents: [String] = []

    /// An absolute path without links.
    var path: String { shown(name) }

    /// Returns nil if nothing has this path, rather than something that cannot be looked up: a pipe of `/dev/fd`, or a link whose
    /// target is not there, such as one to a file system that is not mounted.
    init?(_ path: String, _ calls: SystemCalls) throws(LockboxError) {
        folder = try OpenFolder("/", at: SystemCalls.currentDirectory, path: "/", calls)
        var rest = Self.parts(of: try Path.absolute(path), isOfLink: false)
        while let part = rest.popLast() {
            var status = stat()
            let found = calls.stat(part.name, at: folder.descriptor, &status)
            if found == -Int(ENOENT), !part.isOfLink { return nil }
            if found == -Int(ENOENT) {
                let reason = "it is a pipe, a deleted file or a link that leads nowhere; name a regular file"
                throw LockboxError.unsafePermissions(path: .other(path), reason: reason)
            }
            try check(found, "stat", shown(part.name))
            if status.st_mode & S_IFMT == S_IFLNK {
                rest += try follow(part.name, status, calls)
            } else if rest.isEmpty, part.name != ".." {
                name = part.name
            } else {
                try enter(part.name, calls)
            }
        }
    }

    /// The parts in reverse.
    private static func parts(of path: String, isOfLink: Bool) -> [Part] {
        path.utf8.split(separator: UInt8(ascii: "/")).reversed()
            .map { Part(name: String(Substring($0)), isOfLink: isOfLink) }.filter { $0.name != "." }
    }

    private func shown(_ name: String) -> String { "/\((parents + [name]).joined(separator: "/"))" }

    private mutating func follow(_ name: String, _ status: stat, _ calls: SystemCalls) throws(LockboxError)
        -> [Part]
    {
        let path = shown(name)
        if links.count == 40 {  // as in Linux
            throw LockboxError.storageFailure(operation: "readlink", path: .other(path), errno: ELOOP)
        }
        links.append(Link(path: path, owner: status.st_uid))
        let target = try folder.target(ofLink: name, path: path)
        if Path.isAbsolute(target) {
            folder = try OpenFolder("/", at: SystemCalls.currentDirectory, path: "/", calls)
            parents = []
        }
        return Self.parts(of: target, isOfLink: true)
    }

    private mutating func enter(_ name: String, _ calls: SystemCalls) throws(LockboxError) {
        folder = try OpenFolder(name, at: folder.descriptor, path: shown(name), calls)
        if name == ".." { _ = parents.popLast() } else { parents.append(name) }
    }
}

/// The descriptor of a folder, through which its entries are opened.
final class OpenFolder: Sendable {
    let descriptor: CInt
    private let calls: SystemCalls

    init(_ name: String, at parent: CInt, path: String, _ calls: SystemCalls) throws(LockboxError) {
        descriptor = CInt(try check(calls.open(name, at: parent, openForSearch | O_DIRECTORY), "open", path))
        self.calls = calls
    }

    deinit { calls.close(descriptor) }

    func target(ofLink name: String, path: String) throws(LockboxError) -> String {
        var target: [UInt8] = []
        try check(calls.world.readLink(name, at: descriptor, &target), "readlink", path)
        if let text = String(validating: target, as: UTF8.self) { return text }
        throw LockboxError.invalidLocation(location: path, reason: "it leads to a name that is not UTF-8")
    }
}
