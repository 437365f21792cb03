import ArgumentParser
import CProcess
import Lockbox
@_spi(Extensions) import LockboxImport

struct ExecCommand: Command {
    static let help: CommandHelp = """
        exec: Run a command with items as environment variables.

        The command gets the items that you name, and no others: a name such as PATH or LD_PRELOAD decides what programs run, \
        and what is in a store or an .env file may be from another program. A variable's name is the item's key in upper \
        case, with _ for everything except letters and digits: web-shop/token becomes WEB_SHOP_TOKEN. --only token=NAME gives \
        it another one. A line NAME=lockbox://prefix/key#field of --env-file passes an item, or a member of its JSON value, \
        under that name; other lines pass their own value, as `import-env` reads it.

        The command replaces lockbox, so signals and the exit status are its own. It is looked up in the PATH that lockbox \
        was started with. The exit status is 127 if there is no such command, 126 if it cannot be run, and 1 if an item is \
        missing.

        Example: lockbox exec --only token -- ./deploy
        """

    @Option(
        help: .init(
            "Pass these items, with commas between them.",
            valueName: "key"
        ),
        completion: .custom(Keys.keys)
    )
    var only: [String] = []

    @Option(file: "Pass the variables of this .env file, and what its references name.")
    var envFile: String?

    @Option(
        help: .init(
            "References may name this prefix besides the store's. Can be repeated.",
            valueName: "prefix"
        ),
        completion: .custom(Keys.prefixes)
    )
    var allowPrefix: [String] = []

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
        if only.isEmpty, envFile == nil {
            throw ValidationError("Name what the command gets: --only with keys, or --env-file.")
        }
    }

    /// An item, or a text of a file, that becomes a variable.
    struct Variable {
        let name: String
        /// There is none for a text.
        var key: ItemKey?
        var field: String?
        var text = ""
        /// Where a reference stands, as the beginning of a message.
        var place = ""

        /// How messages name what it holds.
        var content: String { key.map { "the key \(String(reflecting: $0.key))" } ?? "a line of the file" }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let now = Date()
        let variables = try variables(store.prefix)
        try check(variables)
        let purpose = variables.compactMap(\.key).map { $0.prefix == store.prefix ? $0.key : $0.text }
        let values = try store.unlocking(for: purpose.joined(separator: ", ")) {
            try variables.map { try value($0, store, now) }
        }
        let words = try zip(variables, values).map { try Self.word($0, $1) }
        options.keepFromPrograms()
        ProcessMemory.restoreCoreLimit()
        let code = replace_process(RawArguments.last(command.count), words + [nil])
        let longest = zip(variables, values).max { $0.1.count < $1.1.count }!
        let advice =
            code != E2BIG
            ? ""
            : " The longest variable is \(longest.0.name), \(longest.0.content), with \(longest.1.count) bytes; Linux takes 128 KiB in "
                + "one. Leave it out of --only, and have the command read it from a pipe: `lockbox get`."
        let reason = String(cString: strerror(code))
        Output.note("lockbox: \(command.first!.onOneLine) cannot be run: \(reason).\(advice)")
        throw ExitCode(code == ENOENT ? 127 : 126)
    }

    private func variables(_ prefix: String) throws -> [Variable] {
        let named = try Set(only.flatMap { $0.split(separator: ",") }).sorted()
            .map { try Self.variable($0, prefix) }
        let variables =
            try named + (envFile.map { try References.read($0, allowed: allowPrefix + [prefix]) } ?? [])
        if variables.allSatisfy({ $0.key == nil }) {
            throw Failure(.noSuchItem, "No item is named. Nothing was run.")
        }
        return variables
    }

    /// A key, or KEY=NAME.
    private static func variable(_ text: Substring, _ prefix: String) throws -> Variable {
        let named = text.wholeMatch(of: /(.+)=([A-Za-z_][A-Za-z0-9_]*)/)
        let key = try ItemKey(prefix: prefix, key: String(named?.1 ?? text))
        return Variable(name: named.map { String($0.2) } ?? VariableName.of(key: key.key), key: key)
    }

    /// NAME=VALUE, as the environment has it.
    private static func word(_ variable: Variable, _ value: Data) throws -> UnsafeMutablePointer<CChar>? {
        if value.contains(0) {
            throw Failure(
                .conflict,
                "The value of \(variable.content) contains a NUL, which a variable cannot hold."
            )
        }
        let word = strdup((Data("\(variable.name)=".utf8) + value + [0]).map { CChar(bitPattern: $0) })
        if word == nil { throw Failure.system("Setting \(variable.name) failed") }
        return word
    }

    private func value(_ variable: Variable, _ store: Store, _ now: Date) throws -> Data {
        guard let key = variable.key else { return Data(variable.text.utf8) }
        do {
            guard let value = try store.backend.value(for: key, now: now) else {
                throw try store.of(key.prefix).missing(key.key)
            }
            return try (variable.field.map { try value.field($0, key.key) } ?? value).plain(key.key)
        } catch let failure as Failure {
            throw Failure(failure.status, variable.place + failure.message)
        }
    }

    private func check(_ variables: [Variable]) throws {
        var contents: [String: String] = [:]
        for variable in variables {
            guard let other = contents.updateValue(variable.content, forKey: variable.name) else { continue }
            throw Failure(
                .conflict,
                "\(variable.place)Both \(other) and \(variable.content) would become \(variable.name). Name one of them, or give it "
                    + "another name as KEY=NAME."
            )
        }
    }
}

/// An `.env` file in which values may be references to items.
enum References {
    /// - Parameter allowed: The prefixes that they may name.
    static func read(_ path: String, allowed: [String]) throws -> [ExecCommand.Variable] {
        // In their places, so that one inside another value is not taken for a line of its own.
        var references: [String: ExecCommand.Variable] = [:]
        let mark = "reference\(UInt64.random(in: .min ... .max))"
        guard let text = String(validating: try Input.all(ofFile: path), as: UTF8.self) else {
            throw Failure(.usage, "\(path.onOneLine) is not UTF-8. Nothing was run.")
        }
        var lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .map { String(Substring($0)) }
        let form =
            /\u{FEFF}?\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(["']?)(lockbox:\/\/.*?)\2\s*(?:\s#.*)?/
        for index in lines.indices {
            guard let parts = lines[index].wholeMatch(of: form) else { continue }
            let (name, place) = (String(parts.1), "\(path.onOneLine), line \(index + 1): ")
            let text = "\(mark)x\(index)"
            references[text] = try reference(parts.3, named: name, place, allowed: allowed)
            lines[index] = "\(name)=\(text)"
        }
        let rest = Data(lines.joined(separator: "\n").utf8)
        let variables = try EnvironmentDialect.common.variables(of: rest, named: path)
        let isInside = variables.contains {
            references[$0.value] == nil
                && ($0.value.containsLiterally(mark) || $0.value.containsLiterally("lockbox://"))
        }
        if isInside {
            throw Failure(.usage, "\(path.onOneLine) has a reference inside another value. Nothing was run.")
        }
        return variables.map { references[$0.value] ?? .init(name: $0.name, text: $0.value) }
    }

    private static func reference(_ text: Substring, named name: String, _ place: String, allowed: [String])
        throws -> ExecCommand.Variable
    {
        guard let parts = text.wholeMatch(of: /lockbox:\/\/([^\/#]+)\/([^#]+)(?:#(.+))?/),
            let prefix = decoded(parts.1), let key = decoded(parts.2)
        else {
            throw Failure(.usage, "\(place)This is no reference lockbox://prefix/key#field. Nothing was run.")
        }
        guard allowed.contains(prefix) else {
            throw Failure(
                .conflict,
                "\(place)It names the prefix \(prefix.onOneLine). If that is the beginning of a key, put the prefix before it: "
                    + "lockbox://\(allowed.last!.onOneLine)/\(prefix.onOneLine)/\(key.onOneLine). If not, use --allow-prefix. Nothing was run."
            )
        }
        let item = try ItemKey(prefix: prefix, key: key)
        return ExecCommand.Variable(name: name, key: item, field: parts.3.map(String.init), place: place)
    }

    /// With the bytes for %2F and the like.
    static func decoded(_ text: Substring) -> String? {
        let parts = text.utf8.split(separator: UInt8(ascii: "%"), omittingEmptySubsequences: false)
        var bytes = Array(parts[0])
        for part in parts.dropFirst() {
            guard let digits = Substring(part).prefixMatch(of: /[0-9A-Fa-f]{2}/)?.output else { return nil }
            bytes += [UInt8(digits, radix: 16)!] + part.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}

/// The environment variable for an item.
enum VariableName {
    /// The key in upper case, with `_` for everything except ASCII letters and digits, and `_` before a leading
    /// digit.
    static func of(key: String) -> String {
        let name = key.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0.uppercased() : "_" }.joined()
        return name.first?.isNumber == true ? "_\(name)" : name
    }
}
