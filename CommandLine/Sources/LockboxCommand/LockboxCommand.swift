import ArgumentParser

/// The `lockbox` command. If it is started under the name of a credential helper, it acts as that helper.
@main struct LockboxCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lockbox",
        abstract: "Store secrets in encrypted files or in an etcd cluster.",
        discussion: """
            A value is read from standard input, or typed without echo. It is never an argument. `lockbox help store` lists \
            what every command takes: the store, the prefix and the passcode.

            Exit status: 0 success; 1 no such item; 2 locked, or a passcode is needed or wrong; 3 damaged or tampered \
            with, rolled back, or not what was required; 4 already exists, or refused; 64 usage; 74 input or output.
            """,
        version: "0.1.0",
        groupedSubcommands: [
            CommandGroup(
                name: "Items:",
                subcommands: [
                    SetCommand.self, GetCommand.self, ListCommand.self, InfoCommand.self, EditCommand.self,
                    ChangeCommand.self, MoveCommand.self, CopyCommand.self, RemoveCommand.self,
                    ClearCommand.self, GenerateCommand.self, OTPCommand.self,
                ]
            ),
            CommandGroup(
                name: "The store:",
                subcommands: [
                    PasscodeCommand.self, UnlockCommand.self, LockCommand.self, StatusCommand.self,
                    SlotsCommand.self, ExportCommand.self, ImportCommand.self,
                    RotateCommand.self, VerifyCommand.self, QuarantineCommand.self,
                    AcceptRestoredCommand.self,
                ]
            ),
            CommandGroup(
                name: "From older programs:",
                subcommands: [ImportEnvCommand.self, ImportNetrcCommand.self, ImportPassCommand.self]
            ),
            CommandGroup(
                name: "For other programs:",
                subcommands: [
                    ExecCommand.self, InjectCommand.self, RefreshCommand.self,
                    GitCredentialCommand.self, DockerCredentialCommand.self, SecretServiceCommand.self,
                    DoctorCommand.self, StoreHelp.self,
                ]
            ),
        ]
    )

    static func main() {
        ProcessMemory.protect()
        do {
            try StandardDescriptors.occupy()
            let arguments = try arguments()
            if arguments.isEmpty { throw noCommand }
            try checkTopic(arguments)
            Extension.startIfNeeded(arguments)
            if try QuickStart.run(arguments) { return }
            var command = try parseAsRoot(arguments)
            try command.run()
        } catch {
            leave(with: error)
        }
    }

    /// Without access to the arguments, there seem to be none.
    private static var noCommand: Failure {
        canReadArguments
            ? Failure(.usage, "There is no command. See `lockbox --help`.")
            : Failure(.inputOutput, "The arguments cannot be read: mount /proc, and run the command again.")
    }

    /// The parser answers `help` with an unknown command as if there were none.
    private static func checkTopic(_ arguments: [String]) throws {
        guard arguments.first == "help", let topic = arguments.dropFirst().first, !topic.hasPrefix("-"),
            UsageMessage.isNoCommand(topic)
        else { return }
        throw Failure(.usage, UsageMessage.text("", [topic]))
    }

    /// Replaces the name of a credential helper with the corresponding subcommand.
    private static func arguments() throws -> [String] {
        var arguments = try RawArguments.checked()
        let name = arguments.isEmpty ? "" : arguments.removeFirst().split(separator: "/").last ?? ""
        if name == "git-credential-lockbox" { return ["git-credential"] + arguments }
        if name == DockerCredentialCommand.helperName { return ["docker-credential"] + arguments }
        if arguments.first == "add" { return ["set", "--add"] + arguments.dropFirst() }
        let topics = ["store": StoreHelp.configuration.commandName!, "add": "set"]
        if arguments.count == 2, arguments[0] == "help" {
            arguments[1] = topics[arguments[1]] ?? arguments[1]
        }
        return arguments
    }

    private static func leave(with error: any Error) -> Never {
        if let code = error as? ExitCode { endProcess(code.rawValue) }
        let arguments = (try? arguments()) ?? []
        if exitCode(for: error) == .success { answer(fullMessage(for: error)) }
        // During shell completion, a message would be useless.
        if arguments.first == "---completion" { endProcess(ExitStatus.usage.rawValue) }
        let isUsage = exitCode(for: error) == .validationFailure && !(error is Failure)
        let failure =
            isUsage ? Failure(.usage, UsageMessage.text(message(for: error), arguments)) : Failure(error)
        if DockerCredentialCommand.isRunning { DockerCredentialCommand.leave(with: failure) }
        leave(with: failure)
    }

    private static func leave(with failure: Failure) -> Never {
        let name = Terminal.isColored(STDERR_FILENO) ? "\u{1B}[31mlockbox:\u{1B}[0m" : "lockbox:"
        Output.status("\(name) \(failure.message.onOneLine)\n")
        endProcess(failure.status.rawValue)
    }

    /// Whether this is a request for help, the version or a completion script.
    private static func answer(_ text: String) -> Never {
        do { try Output.bytes(Data("\(Keys.completed(StoreHelp.shortened(text)))\n".utf8)) } catch {
            leave(with: Failure(error))
        }
        endProcess(ExitStatus.done.rawValue)
    }
}

/// A command without subcommands.
protocol Command: ParsableCommand {
    static var help: CommandHelp { get }
}

extension Command {
    static var configuration: CommandConfiguration { help.configuration }
}

/// The name of a command and its aliases, what it does, and more: `NAME, ALIAS: SENTENCE`, an empty line, and the rest. The list of
/// commands shows only the sentence.
struct CommandHelp: ExpressibleByStringLiteral {
    /// Made once: the parser asks for it again and again.
    let configuration: CommandConfiguration

    init(stringLiteral text: String) {
        let (colon, end) = (text.firstIndex(of: ":")!, text.firstIndex(of: "\n")!)
        let names = text[..<colon].split(separator: ", ").map(String.init)
        configuration = CommandConfiguration(
            commandName: names[0],
            abstract: String(text[text.index(colon, offsetBy: 2)..<end]),
            discussion: String(text[text.index(end, offsetBy: 2)...]),
            aliases: Array(names.dropFirst())
        )
    }
}

/// The page about the options that all commands share.
struct StoreHelp: ParsableCommand {
    static let title = "Store options"
    static let configuration = CommandConfiguration(
        commandName: "store-options",
        abstract: "What every command takes.",
        usage: "lockbox COMMAND [<store options>] …",
        discussion: """
            A key has a prefix, such as an app's identifier. A / in a key is only part of its name: web/token is a key, and web \
            no folder and no prefix. Without options, commands use the prefix lockbox in this user's \
            store. A locked store is unlocked by what the options or the environment name; otherwise the passcode is asked for \
            at the terminal.
            """,
        shouldDisplay: false
    )

    @OptionGroup(title: title) var secret: UnlockOptions
    @OptionGroup(title: title) var options: StoreOptions

    func run() throws { throw CleanExit.helpRequest(self) }

    /// The help of another command without this page.
    static func shortened(_ help: String) -> String {
        let sections = help.split(separator: "\n\n")
        let own = sections.filter { !$0.hasPrefix("\(title.uppercased()):") }
        guard own.count < sections.count, !help.contains("lockbox COMMAND") else { return help }
        let more = "Options for the store, the prefix and the passcode: `lockbox help store`"
        return (own.map(\.trimmingWhitespace) + [more]).joined(separator: "\n\n")
    }
}
