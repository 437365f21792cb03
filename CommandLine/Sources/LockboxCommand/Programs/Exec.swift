import ArgumentParser
import CProcess
import Lockbox
@_spi(Extensions) import LockboxCore

struct ExecCommand: Command {
    static let help: CommandHelp = """
        exec: Run a command with items as environment variables.

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

    @Option(
        help: .init(
            "Only these items, with commas between them. (default: all items with the prefix)",
            valueName: "key"
        ),
        completion: .custom(Keys.keys)
    )
    var only: [String] = []

    @Option(file: "Pass what the references in this file name.")
    var envFile: String?

    @Option(
        help: .init(
            "References may name this prefix besides the store's. Can be repeated.",
            valueName: "prefix"
        ),
        completion: .custom(Keys.prefixes)
    )
    var allowPrefix: [String] = []

    @Option(
        help: .init(
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

    /// Whether nobody has named the variables.
    private var isWholePrefix: Bool { only.isEmpty && envFile == nil }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let now = Date()
        let variables = try variables(store, now)
        try check(variables)
        let purpose = variables.map { $0.key.prefix == store.prefix ? $0.key.key : $0.key.text }
        let values = try store.unlocking(for: purpose.joined(separator: ", ")) {
            try variables.map { try value($0, store, now) }
        }
        let words = try zip(variables, values).map { try Self.word($0, $1) }
        // The command must not inherit these.
        unsetenv("LOCKBOX_PASSCODE")
        if let descriptor = options.passcodeFd, descriptor > STDERR_FILENO { close(descriptor) }
        ProcessMemory.restoreCoreLimit()
        let code = replace_process(RawArguments.last(command.count), words + [nil])
        Output.note("lockbox: \(command.first!.onOneLine) cannot be run: \(String(cString: strerror(code))).")
        throw ExitCode(code == ENOENT ? 127 : 126)
    }

    private func variables(_ store: Store, _ now: Date) throws -> [Variable] {
        if isWholePrefix {
            let prefixes = options.prefixes.isEmpty ? [store.prefix] : options.prefixes
            return try prefixes.flatMap { try Self.all(store.of($0), now) }
        }
        let named = try Set(only.flatMap { $0.split(separator: ",") }).sorted()
            .map { try Self.variable($0, store.prefix) }
        guard let envFile else { return named }
        let variables = try named + References.read(envFile, allowed: allowPrefix + [store.prefix])
        if variables.isEmpty {
            throw Failure(.noSuchItem, "There is no reference in the file. Nothing was run.")
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
                "The value for the key \(String(reflecting: variable.key.key)) contains a NUL, which a variable cannot hold."
            )
        }
        let word = strdup((Data("\(variable.name)=".utf8) + value + [0]).map { CChar(bitPattern: $0) })
        if word == nil { throw Failure.system("Setting \(variable.name) failed") }
        return word
    }

    /// All items with the prefix, without those that have expired, which are named. An item that cannot be read is an error, because
    /// a missing variable would be noticed too late. So is a prefix without items, which is probably a typing error.
    private static func all(_ store: Store, _ now: Date) throws -> [Variable] {
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
            guard let item = try store.backend.item(for: key, now: now) else {
                throw try store.of(key.prefix).missing(key.key)
            }
            if isWholePrefix { try checkIsByOwner(item) }
            return try (variable.field.map { try item.value.field($0, key.key) } ?? item.value).plain(key.key)
        } catch let failure as Failure {
            throw Failure(failure.status, variable.place + failure.message)
        }
    }

    /// Of a whole prefix, nobody has named the variables. A program with the device key alone could have added one, of a class that
    /// needs no unlock.
    private func checkIsByOwner(_ item: StoredItem) throws {
        guard let isByOwner = item.attributes.isByOwner else {
            throw LockboxError.interactionNotAllowed(.whenUnlocked)
        }
        if isByOwner { return }
        throw Failure(
            .conflict,
            "Nobody who could unlock the store is known to have stored \(item.key.key.onOneLine). Store it again, or name the items with --only."
        )
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

    /// Returns why no item must become this variable, as the end of a sentence, or nil if it may.
    ///
    /// - Parameter allowed: The names that the user has allowed.
    static func refusal(of name: String, allowed: [String]) -> String? {
        guard !allowed.contains(name), let effect = DangerousVariables.effect(of: name) else { return nil }
        return "as \(name) it controls \(effect); use --allow-variable \(name) to allow it"
    }
}
