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
