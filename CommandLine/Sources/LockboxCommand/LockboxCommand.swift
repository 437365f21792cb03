import ArgumentParser
import Foundation

/// The `lockbox` command. Under the name of a helper that another program looks for, it is that helper.
@main struct LockboxCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lockbox",
        abstract: "Keeps secrets in encrypted files.",
        discussion: """
            A value comes from standard input, or is asked for without echo; it is never an argument.

            Exit status: 0 done; 1 no such item; 2 locked, or a passcode is needed or wrong; 3 damaged or tampered; \
            4 exists already, or is not what was asked for; 64 usage; 74 input or output.
            """,
        version: "0.1.0",
        groupedSubcommands: [
            CommandGroup(
                name: "Items:",
                subcommands: [
                    SetCommand.self, GetCommand.self, ListCommand.self, InfoCommand.self, RemoveCommand.self,
                    ClearCommand.self,
                ]
            ),
            CommandGroup(
                name: "The store:",
                subcommands: [
                    PasscodeCommand.self, UnlockCommand.self, LockCommand.self, StatusCommand.self,
                    ExportCommand.self, ImportCommand.self, RotateCommand.self, VerifyCommand.self,
                ]
            ),
            CommandGroup(
                name: "From older programs:",
                subcommands: [MigrateCommand.self, ImportEnvCommand.self, ImportNetrcCommand.self]
            ),
            CommandGroup(
                name: "For other programs:",
                subcommands: [ExecCommand.self, GitCredentialCommand.self, DockerCredentialCommand.self]
            ),
        ]
    )

    static func main() {
        do {
            let arguments = arguments
            if try QuickStart.run(arguments) { return }
            var command = try parseAsRoot(arguments)
            try command.run()
        } catch {
            leave(with: error)
        }
    }

    /// A helper's name stands for its command.
    private static var arguments: [String] {
        var arguments = CommandLine.arguments
        let name = arguments.isEmpty ? "" : arguments.removeFirst().split(separator: "/").last ?? ""
        switch name {
        case "git-credential-lockbox": return ["git-credential"] + arguments
        case Substring(DockerCredentialCommand.helperName): return ["docker-credential"] + arguments
        default: return arguments
        }
    }

    private static func leave(with error: any Error) -> Never {
        if let code = error as? ExitCode { Foundation.exit(code.rawValue) }
        if exitCode(for: error) == .success { exit(withError: error) }
        // A shell that completes has no use for a message.
        if arguments.first == "---completion" { Foundation.exit(ExitStatus.usage.rawValue) }
        let failure = error is Failure || !isUsage(error) ? Failure(error) : Failure(.usage, usage(error))
        let name = Terminal.isColoured(STDERR_FILENO) ? "\u{1B}[31mlockbox:\u{1B}[0m" : "lockbox:"
        Output.note("\(name) \(failure.message.onOneLine)")
        Foundation.exit(failure.status.rawValue)
    }

    private static func isUsage(_ error: any Error) -> Bool { exitCode(for: error) == .validationFailure }

    /// The parser's message on one line. What was typed is left out unless it is an option's name: it may be a secret that
    /// somebody took for an argument.
    private static func usage(_ error: any Error) -> String {
        var message = message(for: error).split(whereSeparator: \.isNewline)
            .map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: " ")
            .replacingOccurrences(of: "following: - ", with: "following: ").replacingOccurrences(
                of: " - ",
                with: ", "
            )
        for argument in arguments where !argument.hasPrefix("--") || argument.contains("=") {
            let value = argument.hasPrefix("--") ? String(argument.drop { $0 != "=" }.dropFirst()) : argument
            message = message.replacingOccurrences(of: " '\(value)'", with: "")
        }
        if !message.hasSuffix(".") { message += "." }
        guard let first = arguments.first else { return message }
        if first.hasPrefix("-") { message += " Options come after the command." }
        let commands = configuration.groupedSubcommands.flatMap(\.subcommands)
        let command = commands.contains { $0.configuration.commandName == first } ? " \(first)" : ""
        return "\(message) See `lockbox\(command) --help`."
    }
}
