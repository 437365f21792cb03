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
            if text == "--", ["exec", "refresh"].contains(arguments.dropFirst().first) { break }
            guard let text else { throw Failure(.usage, "An argument is not UTF-8.") }
            arguments.append(text)
        }
        try checkShortOptions(arguments)
        try checkStoreOptions(arguments)
        return arguments + CommandLine.arguments.dropFirst(arguments.count)
    }

    /// The parser treats any combination of short options that contains an h as a request for help.
    private static func checkShortOptions(_ arguments: [String]) throws {
        let words = arguments.dropFirst().prefix { $0 != "--" }.filter {
            $0.hasPrefix("-") && !$0.hasPrefix("--")
        }
        if words.contains(where: { $0.count > 2 && $0.contains("h") && $0.contains { !"-hqvy".contains($0) } }
        ) {
            throw Failure(
                .usage,
                "There is no such option. Put an argument that begins with a dash after --."
            )
        }
    }

    /// The parser takes the last one without a word, which may be another store or prefix than meant.
    private static func checkStoreOptions(_ arguments: [String]) throws {
        let words = arguments.prefix { $0 != "--" }
        for option in ["--prefix", "--directory", "--store", "--passcode-file"] {
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
struct UsageMessage {
    let text: String

    /// - Parameter commands: The commands, each with its subcommands.
    init(_ message: String, _ arguments: [String], commands: [String: [String]]) {
        guard let first = arguments.first else {
            text = Self.sentence(Self.oneLine(message))
            return
        }
        let isCommand = commands[first] != nil
        let path = [
            isCommand ? first : nil, arguments.dropFirst().first { commands[first]?.contains($0) ?? false },
        ]
        let help = "See `\((["lockbox"] + path.compactMap(\.self)).joined(separator: " ")) --help`."
        if !isCommand, !first.hasPrefix("-") {
            text = "There is no such command. \(help)"
            return
        }
        let typed = arguments.dropFirst(isCommand ? 1 : 0)
        let order = first.hasPrefix("-") ? "Options come after the command. " : ""
        text = "\(Self.sentence(Self.oneLine(Self.masked(message, Array(typed))))) \(order)\(help)"
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
        if secrets.contains(where: {
            $0.wholeMatch(of: /[a-z-]*|..?.?/) == nil && masked.containsLiterally($0)
        }) {
            return "The arguments are not valid for this command."
        }
        return masked
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
