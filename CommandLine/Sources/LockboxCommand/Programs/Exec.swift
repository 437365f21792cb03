import ArgumentParser
import CProcess
import Lockbox

struct ExecCommand: Command {
    static let help: CommandHelp = """
        exec, run: Run a command with items as environment variables.

        The command gets the items that you name, and no others: a name such as PATH or LD_PRELOAD decides what programs run, \
        and what is in a store or an .env file may be from another program. A variable's name is the item's key in upper \
        case, with _ for everything except letters and digits: web-shop/token becomes WEB_SHOP_TOKEN. \
        A line NAME=lockbox://prefix/key#field of --env-file passes an item, or a member of its JSON value, \
        under that name; other lines pass their own value, as `import-env` reads it.

        The command replaces lockbox, so signals and the exit status are its own. It is looked up in the PATH that lockbox \
        was started with. The exit status is 127 if there is no such command, 126 if it cannot be run, and 1 if an item is \
        missing.

        Example: lockbox exec --only token,web/github=GITHUB -- ./deploy
        """

    @Option(
        help: .init(
            "Pass these items, with commas between them; KEY=NAME gives the variable another name.",
            valueName: "key"
        ),
        completion: .custom(Keys.keys)
    )
    var only: [String] = []

    @Option(file: "Pass the variables of this .env file, and what its references name.")
    var envFile: String?

    @OptionGroup var references: ReferenceOptions

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
            throw ValidationError(
                "Name what the command gets: --only with keys, such as --only token, or with another name --only web/github=GITHUB; or --env-file."
            )
        }
    }

    /// An item, or a text of a file, that becomes a variable.
    struct Variable {
        let name: String
        /// There is none for a text.
        var reference: Reference?
        var text = ""

        /// How messages name what it holds.
        var content: String {
            reference.map { "the key \(String(reflecting: $0.key.key))" } ?? "a line of the file"
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let now = Date()
        let variables = try variables(store.prefix)
        try check(variables)
        let values = try Reference.opening(variables.compactMap(\.reference), in: store) {
            try variables.map { try $0.reference?.value(in: store, at: now) ?? Data($0.text.utf8) }
        }
        let words = try zip(variables, values).map { try Self.word($0, $1) }
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
            try named
            + (envFile.map { try References.read($0, allowed: references.allowPrefix + [prefix]) } ?? [])
        if variables.allSatisfy({ $0.reference == nil }) {
            throw Failure(.noSuchItem, "No item is named. Nothing was run.")
        }
        return variables
    }

    /// A key, or KEY=NAME.
    private static func variable(_ text: Substring, _ prefix: String) throws -> Variable {
        let named = text.wholeMatch(of: /(.+)=([A-Za-z_][A-Za-z0-9_]*)/)
        let key = try ItemKey(prefix: prefix, key: String(named?.1 ?? text))
        let name = named.map { String($0.2) } ?? VariableName.of(key: key.key)
        return Variable(name: name, reference: Reference(key: key))
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

    private func check(_ variables: [Variable]) throws {
        var contents: [String: String] = [:]
        for variable in variables {
            guard let other = contents.updateValue(variable.content, forKey: variable.name) else { continue }
            throw Failure(
                .conflict,
                "\(variable.reference?.place ?? "")Both \(other) and \(variable.content) would become \(variable.name). Name one of them, or give it "
                    + "another name as KEY=NAME."
            )
        }
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
