package import LockboxCore
package import LockboxPlatform

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
        let lines = FileManager.default.contents(atPath: file)?.split(separator: UInt8(ascii: "\n")) ?? []
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
