/// What the options say of the store, wherever they were read.
struct StoreChoice {
    var prefix: String?
    var directory: String?
    var passcodeFile: String?
    var passcodeFd: Int32?
    var quiet = false
    var verbose = false

    /// - Parameters:
    ///   - fallback: The prefix if no other is given, for the helpers of other programs.
    ///   - asks: Whether the passcode may be asked for at a terminal.
    func store(prefix fallback: String? = nil, asks: Bool = true) throws -> Store {
        // A variable that is not set, most likely. The store would be made in the current folder.
        if directory == "" { throw Failure(.usage, "--directory is empty.") }
        let prefix = prefix ?? fallback ?? Environment["LOCKBOX_KEY_PREFIX"] ?? "lockbox"
        return try Store(self, prefix: prefix, asks: asks)
    }
}

/// The process's environment variables. An empty one counts as unset.
enum Environment {
    static subscript(name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
