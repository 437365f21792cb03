import ArgumentParser
import Lockbox

struct ExecCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run a command with items as environment variables.",
        discussion: """
            A variable's name is the item's key in upper case, with _ for everything except letters and \
            digits: web-shop/token becomes WEB_SHOP_TOKEN. Names such as PATH and LD_PRELOAD, which control \
            what programs run, are refused unless they are given with --allow-variable. The command replaces \
            lockbox, so signals and the exit status are its own. It is looked up in the PATH that lockbox \
            was started with. The exit status is 127 if there is no such command, 126 if it cannot be run, \
            and 1 if there is nothing to pass: a missing item, or no item with the prefix.

            Example: lockbox exec --only token -- ./deploy
            """
    )

    @Option(
        parsing: .upToNextOption,
        help: "Only these items. (default: all items with the prefix)",
        completion: .custom(Keys.keys)
    )
    var only: [String] = []

    @Option(
        help: ArgumentHelp(
            "Pass this variable although it controls what programs run. Can be repeated.",
            valueName: "name"
        )
    )
    var allowVariable: [String] = []

    @Argument(parsing: .postTerminator, help: "The command and its arguments.")
    var command: [String]

    @OptionGroup var secret: UnlockOptions
    @OptionGroup var options: StoreOptions

    func validate() throws {
        if command.isEmpty { throw ValidationError("Give the command after --.") }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let now = Date()
        let variables = try variables(only.isEmpty ? keys(store, now) : Set(only).sorted())
        let values = try store.unlocking {
            try variables.map { name, key in (name, key, try value(key, store, now)) }
        }
        let search = ProgramSearch()
        // The command must not inherit these.
        unsetenv("LOCKBOX_PASSCODE")
        if let descriptor = options.passcodeFd, descriptor > STDERR_FILENO { close(descriptor) }
        for (name, key, value) in values { try Self.set(name, key, value) }
        try replaceProcess(search)
    }

    private static func set(_ name: String, _ key: String, _ value: Data) throws {
        if value.contains(0) {
            throw Failure(
                .conflict,
                "The value for the key \(String(reflecting: key)) contains a NUL, which a variable cannot hold."
            )
        }
        let text = value.map { CChar(bitPattern: $0) } + [0]
        guard setenv(name, text, 1) == 0 else {
            throw Failure(.inputOutput, "Setting \(name) failed: \(String(cString: strerror(errno))).")
        }
    }

    /// All keys with the prefix, without those of expired items, which are named. An item that cannot be read is an error, because
    /// a missing variable would be noticed too late. So is a prefix without items, which is probably a typing error.
    private func keys(_ store: Store, _ now: Date) throws -> [String] {
        let all = try store.backend.attributes(prefix: store.prefix, now: nil)
        let expired = all.filter { $0.value.isExpired(at: now) }.keys
        if all.count == expired.count { throw expired.first.map { store.expired($0.key) } ?? store.empty }
        for key in expired.map(\.key).sorted() { store.say("\(store.expired(key).message) It is left out.") }
        return all.keys.filter { !expired.contains($0) }.map(\.key).sorted()
    }

    private func value(_ key: String, _ store: Store, _ now: Date) throws -> Data {
        let item = try ItemKey(prefix: store.prefix, key: key)
        if let value = try store.backend.value(for: item, now: now) { return try value.plain(key) }
        throw try store.backend.attributes(for: item, now: nil) == nil
            ? store.missing(key) : store.expired(key)
    }

    private func variables(_ keys: [String]) throws -> [(name: String, key: String)] {
        var keyOfName: [String: String] = [:]
        return try keys.map { key in
            if let refusal = VariableName.refusal(ofKey: key, allowed: allowVariable) {
                throw Failure(.conflict, "The key \(String(reflecting: key)) was refused: \(refusal).")
            }
            let name = VariableName.of(key: key)
            if let other = keyOfName.updateValue(key, forKey: name) {
                throw Failure(
                    .conflict,
                    "The keys \(String(reflecting: other)) and \(String(reflecting: key)) would both become \(name). "
                        + "Give --only with one of them."
                )
            }
            return (name, key)
        }
    }

    private func replaceProcess(_ search: ProgramSearch) throws -> Never {
        ProcessMemory.restoreCoreLimit()
        let code = search.replaceProcess(RawArguments.last(command.count))
        Output.note("lockbox: \(command[0].onOneLine) cannot be run: \(String(cString: strerror(code))).")
        throw ExitCode(code == ENOENT ? 127 : 126)
    }
}

/// The environment variable for an item.
enum VariableName {
    /// The key in upper case, with `_` for everything except ASCII letters and digits, and `_` before a leading
    /// digit.
    static func of(key: String) -> String {
        let name = String(
            key.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? Character($0.uppercased()) : "_" }
        )
        return name.first?.isNumber == true ? "_\(name)" : name
    }

    /// Returns why the item must not become a variable, as the end of a sentence, or nil if it may.
    ///
    /// - Parameter allowed: The names that the user has allowed.
    static func refusal(ofKey key: String, allowed: [String]) -> String? {
        let name = of(key: key)
        guard !allowed.contains(name), let effect = DangerousVariables.effect(of: name) else { return nil }
        return "as \(name) it controls \(effect); use --allow-variable \(name) to allow it"
    }
}

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
