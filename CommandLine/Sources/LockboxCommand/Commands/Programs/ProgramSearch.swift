/// Replaces this process with a program, like execvp(3), but searches a `PATH` that was read earlier, because
/// the program's own `PATH` may differ.
struct ProgramSearch {
    private let folders: [ArraySlice<UInt8>]

    /// Reads the current `PATH`.
    init() {
        // If `PATH` is not set, execvp(3) searches these folders.
        let path = getenv("PATH").map { Array(UnsafeBufferPointer(start: $0, count: strlen($0))) }
        let bytes = path?.map { UInt8(bitPattern: $0) } ?? Array("/bin:/usr/bin".utf8)
        folders = bytes.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
    }

    /// Returns only if the program does not exist or cannot be run.
    ///
    /// - Parameter arguments: The arguments, beginning with the program's name and ending with nil.
    /// - Returns: The `errno`.
    func replaceProcess(_ arguments: [UnsafeMutablePointer<CChar>?]) -> CInt {
        guard let first = arguments.first, let first else { return ENOENT }
        let name = UnsafeBufferPointer(start: first, count: strlen(first)).map { UInt8(bitPattern: $0) }
        if name.isEmpty { return ENOENT }
        if name.contains(UInt8(ascii: "/")) { return Self.run(name, arguments) }
        var code = ENOENT
        for folder in folders {
            // An empty entry stands for the current folder.
            switch Self.run(folder.isEmpty ? name : folder + [UInt8(ascii: "/")] + name, arguments) {
            case EACCES: code = EACCES
            case ENOENT, ENOTDIR, ENODEV, ESTALE, ETIMEDOUT: continue
            case let other: return other
            }
        }
        return code
    }

    private static func run(_ path: some Sequence<UInt8>, _ arguments: [UnsafeMutablePointer<CChar>?]) -> CInt
    {
        let path = path.map { CChar(bitPattern: $0) } + [0]
        execv(path, arguments)
        if errno == ENOEXEC { runScript(path, arguments) }
        return errno
    }

    /// A script without a `#!` line is run by sh.
    private static func runScript(_ path: [CChar], _ arguments: [UnsafeMutablePointer<CChar>?]) {
        let shell = strdup("/bin/sh")
        let script = strdup(path)
        execv("/bin/sh", [shell, script] + arguments.dropFirst())
        let code = errno
        free(shell)
        free(script)
        errno = code
    }
}
