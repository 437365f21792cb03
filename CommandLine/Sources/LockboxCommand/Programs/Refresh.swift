import ArgumentParser
@_spi(Extensions) import Lockbox

struct RefreshCommand: Command {
    static let help: CommandHelp = """
        refresh: Replace a token by what a command prints, in one process at a time.

        The command gets the old value on its standard input, and prints the new one, as `get` and `set` do. It runs in \
        one process at a time, on all machines that share the store; the others wait. The value that is stored then is \
        printed. If the command fails, the old value stays, and the exit status is the command's.

        If the value is a JSON object, members that the command does not print are kept. What is no new value is printed, and \
        not stored, exit status 65: if it is empty, has a member error, lacks the access_token of a session, or is of another \
        kind than the old value, such as HTML. --as-is stores anything. A new value that cannot be stored is printed too, \
        exit status 74.

        The value is fresh, and the command does not run, if another process has replaced it since this one \
        began to wait. LOCKBOX_MAY_BE_SPENT is 1 for the command if an earlier one was killed: a token that \
        may be used once may have been used.

        Example: lockbox refresh token --unless-younger-than 50m -- ./ask-the-issuer
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Option(help: .init("The value is fresh if it was changed less than this ago.", valueName: "time"))
    var unlessYoungerThan: String?

    @Option(
        help: .init(
            "The value is fresh if this command of the shell, which gets it on its standard input, ends with 0.",
            valueName: "command"
        )
    )
    var unless: String?

    @Flag(help: "Store what the command prints as it is, unless it is empty.")
    var asIs = false

    @Argument(parsing: .postTerminator, help: "The command and its arguments.")
    var command: [String]

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if command.isEmpty { throw ValidationError("Give the command after --.") }
        if let unlessYoungerThan, Lifetime.seconds(unlessYoungerThan) == nil {
            throw ValidationError("--unless-younger-than takes a time such as 50m, 12h or 7d.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let item = try ItemKey(prefix: store.prefix, key: key)
        // Asks for the passcode if it must, before anything else.
        let value = try store.unlocking { try store.backend.value(for: item, now: Date()) }
        if value == nil { throw store.missing(key) }
        let refresh = Refreshing(
            lockbox: store.lockbox,
            item: item,
            youngest: unlessYoungerThan.flatMap(Lifetime.seconds).map { TimeInterval($0) },
            unless: unless,
            isAsIs: asIs,
            words: command.count
        )
        do {
            guard let value = try TaskLoop.run(refresh.value) else { throw store.missing(key) }
            try Output.value(value.plain(key))
        } catch let failed as PipedProgram.Failed {
            store.say("\(command[0].onOneLine) ended with \(failed.status). The old value stays.")
            throw ExitCode(failed.status)
        } catch let refused as RefreshedValue.Refused {
            // It may be the only copy of a token.
            try? Output.bytes(refused.output)
            let advice =
                "The old value stays; what was printed is on standard output. Use --as-is to store anything."
            throw Failure(
                .noNewValue,
                "What \(command[0].onOneLine) printed is not stored: \(refused.reason). \(advice)"
            )
        } catch let error as Lockbox.RefreshError<ArchivedValue> {
            let failure = Failure(error.reason)
            try? Output.bytes(error.value.plain(key))
            let place = "It is on standard output, and nowhere else."
            throw Failure(failure.status, "The new value is not stored. \(place) \(failure.message)")
        }
    }
}

/// One refresh, apart from the options.
private struct Refreshing: Sendable {
    let lockbox: Lockbox
    let item: ItemKey
    /// In seconds: a younger value is fresh.
    let youngest: TimeInterval?
    /// A command of the shell.
    let unless: String?
    let isAsIs: Bool
    /// The command's, at the end of the arguments.
    let words: Int

    func value() async throws -> ArchivedValue? {
        var first: ArchivedValue?
        return try await lockbox.refreshed(
            item.key,
            options: WriteOptions(),
            limits: Lockbox.RefreshLimits(storing: .seconds(10)),
            decode: { $0 },
            encode: { $0 },
            isFresh: { value in
                defer { first = first ?? value }
                return try first.map { $0 != value } ?? isFresh(value)
            },
            isUsable: { _ in false }
        ) { old in
            setenv("LOCKBOX_MAY_BE_SPENT", old.mayBeSpent ? "1" : "0", 1)
            let output = try PipedProgram.output(
                of: RawArguments.last(words),
                input: old.value.plain(item.key)
            )
            let value = RefreshedValue(old: old.value, output: output)
            return try isAsIs ? value.asItIs() : value.merged()
        }
    }

    private func isFresh(_ value: ArchivedValue) throws -> Bool {
        if let youngest, let found = try lockbox.backend.item(for: item, now: nil),
            // A date in the future is by another clock: one that is a little ahead, or was wrong.
            found.value == value, abs(found.attributes.modified.timeIntervalSinceNow) < youngest
        {
            return true
        }
        guard let unless else { return false }
        do {
            _ = try PipedProgram.output(ofWords: ["/bin/sh", "-c", unless], input: value.plain(item.key))
        } catch is PipedProgram.Failed { return false }
        return true
    }
}
