import ArgumentParser
import CProcess
import Lockbox

#if SecretService
    import LockboxSecretService
#endif

struct SecretServiceCommand: Command {
    static let name = "secret-service"
    static let help: CommandHelp = """
        secret-service: Be the keyring of a command, or of a login, where there is no desktop.

        Programs that keep passwords in the Secret Service find one under DBUS_SESSION_BUS_ADDRESS, which only the command gets: a \
        socket of this user's that is gone when the command ends. It is a bus without other programs, so a desktop's, such as \
        notifications, are not there. The items are those of the prefix org.freedesktop.secrets.

        The store is unlocked before the command starts, and otherwise the command does not start, unless --locked is given. \
        Signals are passed on, and the exit status is the command's: 127 if there is no such command, 126 if it cannot be run.

        With --socket or --bus instead of a command, it serves until it gets a signal: programs that connect to the socket, or those on \
        the session's D-Bus, if that has no keyring.

        Example: lockbox secret-service -- gh auth login
        """

    @Flag(help: "Start also if the store is locked. `lockbox unlock` opens it later.")
    var locked = false

    @Option(
        help: .init(
            "Listen at this path, or, with `systemd`, on the socket that systemd has passed.",
            valueName: "path"
        ),
        completion: .file()
    )
    var socket: String?

    @Flag(help: "Be the keyring on the session's D-Bus.")
    var bus = false

    @Argument(parsing: .postTerminator, help: "The command and its arguments.")
    var command: [String] = []

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        switch [!command.isEmpty, socket != nil, bus].count(where: { $0 }) {
        case 0: throw ValidationError("Give the command after --, --socket, or --bus.")
        case 1: break
        default: throw ValidationError("Give one of a command, --socket and --bus.")
        }
    }

    func run() throws {
        #if SecretService
            let store = try options.store(unlockedBy: secret.secret, for: .making)
            if locked { try store.unlockIfGiven() } else { try store.openIfLocked() }
            do { try serve(store) } catch let error as SecretServiceError {
                throw Failure(.inputOutput, error.description)
            }
        #else
            throw Extension.missing("the Secret Service", "--with-secret-service")
        #endif
    }

    #if SecretService
        private func serve(_ store: Store) throws {
            let server = SecretServiceServer(store: store.backend)
            var mask = sigset_t()
            let signals = open_signals(&mask)
            guard signals >= 0 else { throw Failure.system("Signals cannot be waited for") }
            if let socket {
                let socket = try socket == "systemd" ? SecretServiceSocket.ofSystemd() : .at(socket)
                defer { socket.remove() }
                socket.announce()
                return try server.serve(socket, until: signals) { ServedProgram.stop(signals) }
            }
            if bus { return try server.serveOnUserBus(until: signals) { ServedProgram.stop(signals) } }
            let keyring = UserKeyring.look()
            if case .running = keyring, !keyring.isLockbox, !options.quiet {
                Output.note(
                    "lockbox: \(keyring) here already. The command gets Lockbox's, and none of the other services of the session's D-Bus."
                )
            }
            let socket = try SecretServiceSocket.temporary()
            var program = ServedProgram(signals: signals)
            do {
                defer { socket.remove() }
                try program.start(command.count, named: command[0], mask: &mask, address: socket.address)
                try server.serve(socket, until: signals) { try program.hasEnded() }
            }
            throw ExitCode(program.status)
        }
    #endif
}

/// What `copy` copies from, besides a store.
enum CopySource: String, CaseIterable, ExpressibleByArgument {
    case secretService = "secret-service"

    /// How long the user may take to unlock the keyring.
    private static let patience = Duration.seconds(120)

    func copyItems(to store: Store, existing: ExistingItemPolicy) throws -> TransferReport {
        #if SecretService
            let source = try SecretServiceItems(promptLimit: Self.patience)
            return try store.showingProgress(of: "copy") {
                try source.copyItems(to: store.backend, existing: existing, progress: $0)
            }
        #else
            throw Extension.missing("the Secret Service", "--with-secret-service")
        #endif
    }
}

extension DoctorCommand {
    /// The keyring that the user's programs find, and what to do. Nil if this executable cannot tell.
    static var keyring: String? {
        #if SecretService
            let keyring = UserKeyring.look()
            let advice: String? =
                switch keyring {
                case .noBus: "`lockbox secret-service -- COMMAND` gives a command one"
                case .none:
                    "`lockbox secret-service --bus` is one for all programs, and with -- COMMAND for one"
                case .running(_, let isLocked) where keyring.isLockbox:
                    isLocked ? "`lockbox unlock`" : nil
                case .running(_, true): "unlock it in its own program, or log in with its password"
                case .running: "`lockbox copy --from secret-service` copies what it has"
                }
            return [keyring.description, advice].compactMap(\.self).joined(separator: ": ")
        #else
            return nil
        #endif
    }
}

#if SecretService
    /// The command that has the keyring.
    private struct ServedProgram {
        let signals: CInt
        private var process: pid_t = 0
        /// How it has ended.
        private(set) var status: CInt = 0

        init(signals: CInt) { self.signals = signals }

        /// - Parameter words: How many of the last arguments are the command's.
        mutating func start(_ words: Int, named name: String, mask: inout sigset_t, address: String) throws {
            setenv("DBUS_SESSION_BUS_ADDRESS", address, 1)
            ProcessMemory.restoreCoreLimit()
            let code = start_program(RawArguments.last(words), &mask, &process)
            ProcessMemory.protect()
            guard code != 0 else { return }
            Output.note("lockbox: \(name.onOneLine) cannot be run: \(String(cString: strerror(code))).")
            throw ExitCode(code == ENOENT ? 127 : 126)
        }

        /// Called for each signal. Passes on what the command has not got.
        mutating func hasEnded() throws -> Bool {
            var isFromTerminal: CInt = 0
            let signal = next_signal(signals, &isFromTerminal)
            if signal != 0, signal != SIGCHLD {
                // A terminal that hangs up tells only the leader of its session.
                if isFromTerminal == 0 || signal == SIGHUP { kill(process, signal) }
                return false
            }
            var result: CInt = 0
            // The first process of a container gets others' children too.
            while true {
                let ended = waitpid(-1, &result, WNOHANG)
                if ended < 0, errno != EINTR { throw Failure.system("It is not known how the command ended") }
                if ended == 0 { return false }
                if ended == process { break }
            }
            status = PipedProgram.exitCode(result)
            return true
        }

        /// Whether a signal asks a service without a command to end.
        static func stop(_ signals: CInt) -> Bool {
            var isFromTerminal: CInt = 0
            let signal = next_signal(signals, &isFromTerminal)
            return [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(signal)
        }
    }
#endif
