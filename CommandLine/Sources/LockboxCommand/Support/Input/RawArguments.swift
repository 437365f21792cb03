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
            if text == "--", arguments.dropFirst().first == ExecCommand.configuration.commandName { break }
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
