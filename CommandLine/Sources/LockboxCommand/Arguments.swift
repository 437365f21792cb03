/// The command's arguments as raw bytes. Swift's own array replaces invalid UTF-8, so that two different keys
/// could become the same.
enum RawArguments {
    /// Returns all arguments, for the parser.
    ///
    /// - Throws: A ``Failure`` if an argument is not UTF-8. The words of a command to run need not be.
    static func checked() throws -> [String] {
        var arguments: [String] = []
        for index in 0..<count {
            let text = String(validatingCString: at(index))
            if text == "--",
                ["exec", "run", "refresh", SecretServiceCommand.name].contains(arguments.dropFirst().first)
            {
                break
            }
            guard let text else { throw Failure(.usage, "An argument is not UTF-8.") }
            arguments.append(text)
        }
        let own = ownWords(arguments)
        try checkShortOptions(own)
        try checkStoreOptions(own)
        return arguments + CommandLine.arguments.dropFirst(arguments.count)
    }

    /// The words up to the command that `exec` runs, which begins with the first word that is neither an option nor its value.
    private static func ownWords(_ arguments: [String]) -> ArraySlice<String> {
        let words = arguments.prefix { $0 != "--" }
        guard ["exec", "run"].contains(words.dropFirst().first) else { return words }
        let end = words.indices.dropFirst(2).first { index in
            let (word, before) = (words[index], words[index - 1])
            return !word.hasPrefix("-") && (index == 2 || !before.hasPrefix("-") || before.contains("="))
        }
        return words.prefix(upTo: end ?? words.endIndex)
    }

    /// The parser treats any combination of short options that contains an h as a request for help.
    private static func checkShortOptions(_ arguments: ArraySlice<String>) throws {
        let words = arguments.dropFirst().filter { $0.hasPrefix("-") && !$0.hasPrefix("--") && $0.count > 2 }
        if words.contains(where: { $0.contains("h") && $0.contains { !"-hqvy".contains($0) } }) {
            throw Failure(
                .usage,
                "There is no such option. Put an argument that begins with a dash after --."
            )
        }
    }

    /// The parser takes the last one without a word, which may be another store or prefix than meant.
    private static func checkStoreOptions(_ words: ArraySlice<String>) throws {
        let takesPrefixes = ["list", "ls"].contains(words.dropFirst().first)
        for option in ["--directory", "--store", "--passcode-file"] + (takesPrefixes ? [] : ["--prefix"]) {
            let given = words.count { $0 == option || $0.hasPrefix("\(option)=") }
            if given > 1 { throw Failure(.usage, "\(option) was given \(given) times. Give it once.") }
        }
    }

    /// Returns the last arguments, for `execvp`.
    static func last(_ number: Int) -> [UnsafeMutablePointer<CChar>?] {
        (count - number..<count).map { at($0) } + [nil]
    }

    private static var count: Int { Int(CommandLine.argc) }

    private static func at(_ index: Int) -> UnsafeMutablePointer<CChar> { CommandLine.unsafeArgv[index]! }
}

/// The parser's error message, on one line.
///
/// The arguments are left out unless they look like option names, because the user may have typed a secret as
/// an argument.
enum UsageMessage {
    /// - Parameter commands: The commands, each with its subcommands.
    static func text(_ message: String, _ arguments: [String], commands: [String: [String]]) -> String {
        let first = arguments.first ?? ""
        let isCommand = commands[first] != nil
        let subcommand = arguments.dropFirst().first { commands[first]?.contains($0) ?? false }
        let path = ["lockbox", isCommand ? first : nil, subcommand].compactMap(\.self)
        let help = "See `\(path.joined(separator: " ")) --help`."
        if let hint = Hint.of(first) { return "There is no such command. \(hint) \(help)" }
        if !isCommand, !first.hasPrefix("-") {
            let similar = Similar.question(first, commands.keys)
            let hint =
                " `lockbox get KEY` prints a value, `lockbox set KEY` stores one, `lockbox list` prints the keys."
            return "There is no such command.\(similar.isEmpty ? hint : similar) \(help)"
        }
        let typed = arguments.dropFirst(isCommand ? 1 : 0)
        let order = first.hasPrefix("-") ? "Options come after the command. " : ""
        return "\(sentence(oneLine(masked(message, Array(typed))))) \(order)\(help)"
    }

    /// Done before lines are joined, because an argument may contain several lines.
    private static func masked(_ message: String, _ typed: [String]) -> String {
        let secrets = Set(typed.flatMap(values)).sorted { $0.utf8.count > $1.utf8.count }
        var masked = message
        for secret in secrets {
            masked = masked.replacingLiterally(" '\(secret)'", with: "")
                .replacingLiterally("option: \(secret)", with: "option")
        }
        // For messages of future versions of the parser. Plain words occur in every message.
        let unusual = secrets.filter { $0.wholeMatch(of: /[a-z-]*|..?.?/) == nil }
        return unusual.contains(where: masked.containsLiterally)
            ? "The arguments are not valid for this command." : masked
    }

    /// The parts of an argument that are not option names.
    private static func values(_ argument: String) -> [String] {
        let parts =
            argument.hasPrefix("-") ? argument.split(separator: "=", maxSplits: 1).map(String.init) : []
        return ([argument] + parts).filter { $0.wholeMatch(of: /-[a-z]|--[a-z][a-z-]*/) == nil }
    }

    private static func oneLine(_ message: String) -> String {
        message.split(whereSeparator: \.isNewline).map { $0.trimmingWhitespace }
            .joined(separator: " ")
            .replacingLiterally("following: - ", with: "following: ")
            .replacingLiterally(" - ", with: ", ")
    }

    private static func sentence(_ message: String) -> String {
        let text = message.replacing(/:[, ]*$/, with: "")
        return text.hasSuffix(".") || text.hasSuffix("?") ? text : "\(text)."
    }
}

/// What those may type who know pass, gopass, op, envchain, secret-tool, aws-vault or bw. Where a verb has one plain meaning, it is an alias.
private enum Hint {
    /// Verbs, and what does the same here.
    private static let table = """
        find search: `lockbox list '*TEXT*'` finds keys, and `--attribute NAME=TEXT` items.
        lookup: `lockbox get KEY` prints a value, and `lockbox list --attribute NAME=TEXT` finds keys.
        grep: No command searches values: `lockbox list | while read -r key; do lockbox get "$key" | grep -q TEXT && echo "$key"; done`.
        item read cat: `lockbox get KEY --field NAME` prints a value or a part of it, `lockbox set KEY` stores one, `lockbox list` prints the keys.
        document store --set create write put new: `lockbox set KEY <FILE` stores a text, with --data bytes.
        update: `lockbox set KEY --update` replaces a value, and `lockbox change KEY` its attributes.
        vault --list: `lockbox list --all` prints the keys of all prefixes. `lockbox status` counts them.
        init setup: Nothing has to be set up: `lockbox set KEY` makes the store, and `lockbox passcode set` protects it.
        git sync push pull: `lockbox export FILE` writes a backup, and `lockbox copy --to-store FOLDER` copies into another store.
        backup: `lockbox export FILE`.
        restore: `lockbox import FILE`, or `lockbox import KEY FILE` for one item.
        undo history: There is no undo: what was replaced or removed is in a backup, `lockbox import KEY FILE`.
        signin login open: `lockbox unlock`.
        signout logout close: `lockbox lock`.
        whoami account: `lockbox status`.
        passwd password: `lockbox passcode change`; `lockbox set KEY` is for a value.
        env shell: `lockbox exec --only KEY -- COMMAND` runs a command with items as variables.
        totp code: `lockbox otp KEY`.
        pwgen: `lockbox generate`.
        completion: `lockbox --generate-completion-script bash`, zsh or fish.
        version: `lockbox --version`.
        """

    static func of(_ verb: String) -> String? {
        table.split(separator: "\n").lazy.map { $0.split(separator: ": ", maxSplits: 1) }
            .first { $0[0].split(separator: " ").contains(verb[...]) }.map { String($0[1]) }
    }
}

/// Names that differ by little from one that does not exist.
enum Similar {
    /// ` Did you mean NAME?`, or nothing.
    static func question(_ typed: String, _ names: some Sequence<String>) -> String {
        let limit = max(1, min(3, typed.count / 3))
        let found = names.filter { $0 != typed }.map { ($0, distance(typed.lowercased(), $0.lowercased())) }
            .filter { $0.1 <= limit }
            .min { ($0.1, $0.0) < ($1.1, $1.0) }
        return found.map { " Did you mean \($0.0.onOneLine)?" } ?? ""
    }

    /// The number of characters to insert, remove, replace or exchange with the next one.
    private static func distance(_ first: String, _ second: String) -> Int {
        let (first, second) = (Array(first), Array(second))
        var (older, old) = ([Int](), Array(0...second.count))
        for (row, one) in first.enumerated() {
            var new = [row + 1]
            for (column, other) in second.enumerated() {
                var least = min(old[column + 1] + 1, new[column] + 1, old[column] + (one == other ? 0 : 1))
                if row > 0, column > 0, one == second[column - 1], first[row - 1] == other {
                    least = min(least, older[column - 1] + 1)
                }
                new.append(least)
            }
            (older, old) = (old, new)
        }
        return old[second.count]
    }
}
