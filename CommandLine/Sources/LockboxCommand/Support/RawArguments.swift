/// The command's arguments as they were given. Swift's own put another character in place of what is no UTF-8, and two
/// keys would become one.
enum RawArguments {
    /// All of them, for the parser.
    ///
    /// - Throws: A ``Failure`` if one is not UTF-8. The words of a command to run may be.
    static func checked() throws -> [String] {
        var arguments: [String] = []
        for index in 0..<count {
            let text = String(validatingCString: at(index))
            if text == "--", arguments.dropFirst().first == ExecCommand.configuration.commandName { break }
            guard let text else { throw Failure(.usage, "An argument is not text in UTF-8.") }
            arguments.append(text)
        }
        try checkShortOptions(arguments)
        return arguments + CommandLine.arguments.dropFirst(arguments.count)
    }

    /// The parser takes any word of a dash and letters for help if one of the letters is an h.
    private static func checkShortOptions(_ arguments: [String]) throws {
        let words = arguments.dropFirst().prefix { $0 != "--" }.filter {
            $0.hasPrefix("-") && !$0.hasPrefix("--")
        }
        if words.contains(where: { $0.count > 2 && $0.contains("h") && $0.contains { !"-hqvy".contains($0) } }
        ) {
            throw Failure(
                .usage,
                "There is no such option. What begins with a dash and is none comes after --."
            )
        }
    }

    /// The last ones, for `execvp`.
    static func last(_ number: Int) -> [UnsafeMutablePointer<CChar>?] {
        (count - number..<count).map { at($0) } + [nil]
    }

    private static var count: Int { Int(CommandLine.argc) }

    private static func at(_ index: Int) -> UnsafeMutablePointer<CChar> { CommandLine.unsafeArgv[index]! }
}
