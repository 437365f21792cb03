/// The store and prefix that the options choose.
struct StoreChoice {
    var prefix: String?
    var directory: String?
    var passcodeFile: String?
    var passcodeFd: Int32?
    var quiet = false
    var verbose = false

    /// - Parameters:
    ///   - fallback: The default prefix of a credential helper.
    ///   - asks: Whether the user may be asked for the passcode at a terminal.
    func store(prefix fallback: String? = nil, asks: Bool = true) throws -> Store {
        // Probably an unset variable. The store would be created in the current folder.
        if directory == "" { throw Failure(.usage, "--directory is empty. Give a folder, or leave it out.") }
        let prefix = prefix ?? fallback ?? Environment["LOCKBOX_KEY_PREFIX"] ?? "lockbox"
        return try Store(self, prefix: prefix, asks: asks)
    }
}

/// The process's environment variables. Empty variables count as unset.
enum Environment {
    static subscript(name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
