import ArgumentParser
import Lockbox

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
    static func ownWords(_ arguments: [String]) -> ArraySlice<String> {
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
    static func text(_ message: String, _ arguments: [String]) -> String {
        let first = arguments.first ?? ""
        let typed = TypedCommand(arguments)
        let help = "See `\(typed.path.joined(separator: " ")) --help`."
        if let hint = Hint.of([first], in: Hint.verbs) { return "There is no such command. \(hint) \(help)" }
        if typed.name == nil, !first.hasPrefix("-") {
            let similar = Similar.question(first, TypedCommand.all.keys)
            let hint =
                " `lockbox get KEY` prints a value, `lockbox set KEY` stores one, `lockbox list` prints the keys."
            return "There is no such command.\(similar.isEmpty ? hint : similar) \(help)"
        }
        let order = first.hasPrefix("-") ? "Options come after the command. " : ""
        let problem = typed.unknownOption ?? typed.extraArgument(message)
        return "\(problem ?? sentence(oneLine(masked(message, typed.words)))) \(order)\(help)"
    }

    static func isNoCommand(_ name: String) -> Bool { TypedCommand.all[name] == nil }

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
            .replacingLiterally(
                "The value is invalid for '--attribute <NAME=TEXT>'",
                with: "--attribute takes NAME=TEXT"
            )
    }

    private static func sentence(_ message: String) -> String {
        let text = message.replacing(/:[, ]*$/, with: "")
        return text.hasSuffix(".") || text.hasSuffix("?") ? text : "\(text)."
    }
}

/// The command that was typed, and the words after its first one.
private struct TypedCommand {
    /// The command with its subcommands, as they were typed.
    private(set) var path = ["lockbox"]
    private var type: any ParsableCommand.Type = LockboxCommand.self
    /// The command's own name, or nil if there is no such command.
    let name: String?
    let words: [String]
    private let own: ArraySlice<String>

    /// By their names and aliases.
    static var all: [String: any ParsableCommand.Type] {
        var all: [String: any ParsableCommand.Type] = ["help": LockboxCommand.self]
        for command in LockboxCommand.configuration.subcommands {
            for name in [command._commandName] + command.configuration.aliases { all[name] = command }
        }
        return all
    }

    init(_ arguments: [String]) {
        let first = arguments.first.flatMap { Self.all[$0] }
        name = first?._commandName
        words = Array(arguments.dropFirst(first == nil ? 0 : 1))
        own = RawArguments.ownWords(["lockbox"] + arguments).dropFirst(first == nil ? 1 : 2)
        guard let first else { return }
        (path, type) = (["lockbox", arguments[0]], first)
        if arguments[0] == "help" { return }
        for word in own {
            guard let next = type.configuration.subcommands.first(where: { $0._commandName == word }) else {
                continue
            }
            (path, type) = (path + [word], next)
        }
        type = type.configuration.defaultSubcommand ?? type
    }

    /// The message that the command has no such option, or nil. The parser says it only if nothing else is wrong.
    var unknownOption: String? {
        let known = options
        for word in own where word.hasPrefix("-") {
            let name = String(word.prefix { $0 != "=" })
            let names = name.hasPrefix("--") ? [name] : name.dropFirst().map { "-\($0)" }
            let unknown = names.first {
                !known.contains($0) && $0.wholeMatch(of: /-[A-Za-z]|--[a-z][a-z-]*/) != nil
            }
            if let unknown { return "Unknown option '\(unknown)'.\(remedy(for: unknown))" }
        }
        return nil
    }

    /// The options that the help shows.
    private var options: [String] {
        let help = LockboxCommand.helpMessage(for: type, columns: 200).split(separator: "\n")
        let labels = help.compactMap { $0.prefixMatch(of: #/  (-.*?)(?:  |$)/#)?.1 }
        return ["--generate-completion-script"]
            + labels.flatMap { $0.split { " ,".contains($0) }.map(String.init) }
    }

    private func remedy(for option: String) -> String {
        if let hint = Hint.of([name ?? "", option], in: Hint.options) { return " \(hint)" }
        // These must be typed by those who know what they do.
        let names = options.filter { $0.hasPrefix("--") && !["--yes", "--replace", "--force"].contains($0) }
        let similar = Similar.name(
            like: String(option.dropFirst(2)),
            among: names.map { String($0.dropFirst(2)) }
        )
        return similar.map { " Did you mean '--\($0)'?" } ?? ""
    }

    /// The argument that is one too many, or nil. A number of few digits and a file's name are no secrets.
    func extraArgument(_ message: String) -> String? {
        guard let index = words.lastIndex(where: { message == "Unexpected argument '\($0)'" }) else {
            return nil
        }
        let word = words[index]
        let isNumber = word.wholeMatch(of: /[1-9][0-9]{0,2}/) != nil
        let isNamed = isNumber || access(word, F_OK) == 0
        let stand = isNumber ? "NUMBER" : "FILE"
        let hint = (words + [stand]).lazy.compactMap { Hint.of([name ?? "", $0], in: Hint.options) }.first
        let remedy = hint.map { " \($0)" } ?? ""
        let place = "word \(index + 3 - path.count) after `\(path.joined(separator: " "))`"
        return isNamed
            ? "Unexpected argument '\(word)'.\(remedy.replacingLiterally(stand, with: word))"
            : "Unexpected argument: \(place).\(remedy)"
    }
}

/// Verbs and options of pass, gopass, op, envchain, secret-tool, aws-vault and bw, and what does the same here. A verb with one plain
/// meaning is an alias instead.
private enum Hint {
    /// Verbs, and what does the same here.
    static let verbs = """
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
        expire tag label: `lockbox change KEY` with --expires, --attribute NAME=TEXT or --label.
        clip: `lockbox get KEY -c`.
        rekey: `lockbox rotate`.
        tree: `lockbox list --tree`.
        uninstall destroy reset wipe purge: `lockbox clear` removes the items of a prefix. \(wholeStore) The program: \
        `Scripts/install-command --uninstall`.
        """

    private static let wholeStore =
        "A whole store: delete the folder that `lockbox status` names. With a passcode, `lockbox lock --all` before, and `lockbox accept-restored` afterwards."

    /// A command with options or arguments that it does not have, and what there is. NUMBER and FILE stand for an argument.
    static let options = """
        set -m --multiline -e --echo: It is not needed: all of standard input is the value, also several lines. At a terminal: \
        \(SetCommand.severalLines)
        set -f --force: It is not needed: a value is replaced. At a terminal it asks first, unless -y is given.
        set --value --password --secret: The value is read from standard input: an argument is visible to others.
        remove -f --force -r -R --recursive: -y leaves out the question. Keys are names, not folders.
        move copy -f --force: --replace overwrites an existing item.
        generate -n --no-symbols: It is not needed: without --alphabet all, there are letters and digits only.
        generate -i --in-place -f --force: An existing item gets the new value and keeps its attributes. It asks first, unless -y is given.
        generate NUMBER: --length NUMBER is for the number of characters.
        inject FILE: --in FILE reads the template.
        otp insert append: `lockbox set KEY` stores the URI, and `lockbox otp KEY` prints a code.
        change --tag --tags: --attribute NAME=TEXT is what items are found by.
        list -r -R --recursive: It is not needed: all keys of the prefix are printed.
        export --out -o --output: The file is an argument: `lockbox export FILE`.
        clear remove --all: `lockbox clear` removes the items of one prefix. \(wholeStore)
        unlock -t --until FILE NUMBER: `lockbox unlock --timeout 1h` locks it again after that time.
        """

    /// The hint of the first line that begins with all of these words.
    static func of(_ words: [String], in table: String) -> String? {
        table.split(separator: "\n").lazy.map { $0.split(separator: ": ", maxSplits: 1) }
            .first { line in words.allSatisfy { line[0].split(separator: " ").contains($0[...]) } }
            .map { String($0[1]) }
    }
}

/// Names that differ by little from one that does not exist.
enum Similar {
    /// ` Did you mean NAME?`, or nothing.
    static func question(_ typed: String, _ names: some Sequence<String>) -> String {
        name(like: typed, among: names).map { " Did you mean \($0.onOneLine)?" } ?? ""
    }

    /// The name that begins with what was typed, or differs from it in at most a third of its characters.
    static func name(like typed: String, among names: some Sequence<String>) -> String? {
        let begin = typed.lowercased()
        return names.filter { $0 != typed }.map { ($0, distance(begin, $0.lowercased())) }
            .filter { name, distance in
                distance * 3 <= max(begin.count, name.count)
                    || begin.count > 1 && name.lowercased().hasPrefix(begin)
            }
            .min { ($0.1, $0.0) < ($1.1, $1.0) }?.0
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
