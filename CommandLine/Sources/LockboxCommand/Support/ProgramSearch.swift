/// Puts a program in the place of this process, as execvp(3) does, but looks for it in a `PATH` that was read earlier: the
/// one that the program gets may be another.
struct ProgramSearch {
    private let folders: [ArraySlice<UInt8>]

    /// Takes the `PATH` as it is now.
    init() {
        // The second is where execvp(3) looks without one.
        let path = getenv("PATH").map { Array(UnsafeBufferPointer(start: $0, count: strlen($0))) }
        let bytes = path?.map { UInt8(bitPattern: $0) } ?? Array("/bin:/usr/bin".utf8)
        folders = bytes.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
    }

    /// Returns only if there is no such program or it cannot be run.
    ///
    /// - Parameter arguments: The program's name first, and nil at the end.
    /// - Returns: The `errno`.
    func replaceProcess(_ arguments: [UnsafeMutablePointer<CChar>?]) -> CInt {
        guard let first = arguments.first, let first else { return ENOENT }
        let name = UnsafeBufferPointer(start: first, count: strlen(first)).map { UInt8(bitPattern: $0) }
        if name.isEmpty { return ENOENT }
        if name.contains(UInt8(ascii: "/")) { return Self.run(name, arguments) }
        var code = ENOENT
        for folder in folders {
            // An empty one is the current folder.
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

    /// A script without a first line that says what runs it: sh does.
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
