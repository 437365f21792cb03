import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxCore

struct ExecCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run a command with items as environment variables.",
        discussion: """
            A variable's name is the item's key in upper case, with _ for everything except letters and \
            digits: web-shop/token becomes WEB_SHOP_TOKEN. --only token=NAME gives it another one. Names such as PATH and \
            LD_PRELOAD, which control what programs run, are refused unless they are given with --allow-variable. Of a whole \
            prefix, an item that nobody is known to have stored who could unlock the store is refused too: name it. The \
            command replaces lockbox, so signals and the exit status are its own. It is looked up in the PATH that lockbox \
            was started with. The exit status is 127 if there is no such command, 126 if it cannot be run, \
            and 1 if there is nothing to pass: a missing item, or no item with the prefix.

            A line NAME=lockbox://prefix/key#field of --env-file passes an item, or a member of its JSON value, under that \
            name. Nothing else may stand there, except comments.

            Example: lockbox exec --only token -- ./deploy
            """
    )

    @Option(
        help: ArgumentHelp(
            "Only these items, with commas between them. (default: all items with the prefix)",
            valueName: "key"
        ),
        completion: .custom(Keys.keys)
    )
    var only: [String] = []

    @Option(help: "Pass what the references in this file name.", completion: .file())
    var envFile: String?

    @Option(
        help: ArgumentHelp(
            "References may name this prefix besides the store's. Can be repeated.",
            valueName: "prefix"
        ),
        completion: .custom(Keys.prefixes)
    )
    var allowPrefix: [String] = []

    @Option(
        help: ArgumentHelp(
            "Pass this variable although it controls what programs run. Can be repeated.",
            valueName: "name"
        )
    )
    var allowVariable: [String] = []

    @Argument(
        parsing: .captureForPassthrough,
        help: "The command and its arguments.",
        completion: .custom(Keys.programs)
    )
    var words: [String] = []

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    private var command: ArraySlice<String> { words.first == "--" ? words.dropFirst() : words[...] }

    func validate() throws {
        if ["-h", "--help"].contains(words.first) { throw CleanExit.helpRequest(self) }
        if let first = words.first, first.hasPrefix("-"), first != "--" {
            throw ValidationError(
                "There is no option \(first.prefix { $0 != "=" }). Give the command after --."
            )
        }
        if command.isEmpty { throw ValidationError("Give the command and its arguments.") }
    }

    /// An item that becomes a variable.
    struct Variable {
        let name: String
        let key: ItemKey
        var field: String?
        /// Where a reference stands, as the beginning of a message.
        var place = ""
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let now = Date()
        var variables = try Set(only.flatMap { $0.split(separator: ",") }).sorted()
            .map { try Self.variable($0, store.prefix) }
        if let envFile { variables += try References.read(envFile, allowed: allowPrefix + [store.prefix]) }
        if envFile != nil, variables.isEmpty {
            throw Failure(.noSuchItem, "There is no reference in the file. Nothing was run.")
        }
        if only.isEmpty, envFile == nil {
            for prefix in options.prefixes.isEmpty ? [store.prefix] : options.prefixes {
                variables += try all(store.of(prefix), now)
            }
        }
        try check(variables)
        let purpose = variables.map { $0.key.prefix == store.prefix ? $0.key.key : $0.key.text }.joined(
            separator: ", "
        )
        let values = try store.unlocking(for: purpose) {
            if only.isEmpty, envFile == nil { try checkAreOwners(variables, store) }
            return try variables.map { ($0, try value($0, store, now)) }
        }
        let search = ProgramSearch()
        // The command must not inherit these.
        unsetenv("LOCKBOX_PASSCODE")
        if let descriptor = options.passcodeFd, descriptor > STDERR_FILENO { close(descriptor) }
        for (variable, value) in values { try Self.set(variable.name, variable.key.key, value) }
        try replaceProcess(search)
    }

    /// A key, or KEY=NAME.
    private static func variable(_ text: Substring, _ prefix: String) throws -> Variable {
        let named = text.wholeMatch(of: /(.+)=([A-Za-z_][A-Za-z0-9_]*)/)
        let key = String(named?.1 ?? text)
        return Variable(
            name: named.map { String($0.2) } ?? VariableName.of(key: key),
            key: try ItemKey(prefix: prefix, key: key)
        )
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

    /// All items with the prefix, without those that have expired, which are named. An item that cannot be read is an error, because
    /// a missing variable would be noticed too late. So is a prefix without items, which is probably a typing error.
    private func all(_ store: Store, _ now: Date) throws -> [Variable] {
        let all = try store.backend.attributes(prefix: store.prefix, now: nil)
        let expired = all.filter { $0.value.isExpired(at: now) }.keys
        if all.count == expired.count { throw expired.first.map { store.expired($0.key) } ?? store.empty }
        for key in expired.map(\.key).sorted() { store.say("\(store.expired(key).message) It is left out.") }
        return all.keys.filter { !expired.contains($0) }.sorted { $0.key < $1.key }
            .map { Variable(name: VariableName.of(key: $0.key), key: $0) }
    }

    private func value(_ variable: Variable, _ store: Store, _ now: Date) throws -> Data {
        let key = variable.key
        do {
            guard let value = try store.backend.value(for: key, now: now) else {
                throw try store.of(key.prefix).missing(key.key)
            }
            return try (variable.field.map { try value.field($0, key.key) } ?? value).plain(key.key)
        } catch let failure as Failure {
            throw Failure(failure.status, variable.place + failure.message)
        }
    }

    /// Of a whole prefix, nobody has named the variables. A program with the device key alone could have added one, of a class that
    /// needs no unlock.
    private func checkAreOwners(_ variables: [Variable], _ store: Store) throws {
        for prefix in Set(variables.map(\.key.prefix)) {
            let found = try store.backend.attributes(prefix: prefix, now: nil)
            for key in variables.map(\.key) where key.prefix == prefix {
                guard let attributes = found[key] else { continue }
                guard let isByOwner = attributes.isByOwner else {
                    throw LockboxError.interactionNotAllowed(.whenUnlocked)
                }
                if isByOwner { continue }
                throw Failure(
                    .conflict,
                    "Nobody who could unlock the store is known to have stored \(key.key.onOneLine). Store it again, or name the items with --only."
                )
            }
        }
    }

    private func check(_ variables: [Variable]) throws {
        var keys: [String: ItemKey] = [:]
        for variable in variables {
            let key = String(reflecting: variable.key.key)
            if let refusal = VariableName.refusal(of: variable.name, allowed: allowVariable) {
                throw Failure(.conflict, "\(variable.place)The key \(key) was refused: \(refusal).")
            }
            if let other = keys.updateValue(variable.key, forKey: variable.name) {
                throw Failure(
                    .conflict,
                    "\(variable.place)The keys \(String(reflecting: other.key)) and \(key) would both become \(variable.name). "
                        + "Give --only with one of them, or another name as KEY=NAME."
                )
            }
        }
    }

    private func replaceProcess(_ search: ProgramSearch) throws -> Never {
        ProcessMemory.restoreCoreLimit()
        let code = search.replaceProcess(RawArguments.last(command.count))
        Output.note("lockbox: \(command.first!.onOneLine) cannot be run: \(String(cString: strerror(code))).")
        throw ExitCode(code == ENOENT ? 127 : 126)
    }
}

/// A file of references to items.
enum References {
    /// - Parameter allowed: The prefixes that they may name.
    static func read(_ path: String, allowed: [String]) throws -> [ExecCommand.Variable] {
        try Input.lines(ofFile: path).map { number, line in
            let place = "\(path.onOneLine), line \(number): "
            let form = /([A-Za-z_][A-Za-z0-9_]*)=lockbox:\/\/([^\/#]+)\/([^#]+)(?:#(.+))?/
            guard let parts = line.wholeMatch(of: form), let prefix = decoded(parts.2),
                let key = decoded(parts.3)
            else {
                throw Failure(
                    .usage,
                    "\(place)This is no reference NAME=lockbox://prefix/key#field. Nothing was run."
                )
            }
            guard allowed.contains(prefix) else {
                throw Failure(
                    .conflict,
                    "\(place)It names the prefix \(prefix.onOneLine). If that is the beginning of a key, put the prefix before it: "
                        + "lockbox://\(allowed.last!.onOneLine)/\(prefix.onOneLine)/\(key.onOneLine). If not, use --allow-prefix. Nothing was run."
                )
            }
            return ExecCommand.Variable(
                name: String(parts.1),
                key: try ItemKey(prefix: prefix, key: key),
                field: parts.4.map(String.init),
                place: place
            )
        }
    }

    /// With the bytes for %2F and the like.
    static func decoded(_ text: Substring) -> String? {
        var (bytes, rest) = ([UInt8](), text.utf8)
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let digits = Substring(rest).prefixMatch(of: /[0-9A-Fa-f]{2}/)?.output else { return nil }
            bytes.append(UInt8(digits, radix: 16)!)
            rest.removeFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
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
        refusal(of: of(key: key), allowed: allowed)
    }

    static func refusal(of name: String, allowed: [String]) -> String? {
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
