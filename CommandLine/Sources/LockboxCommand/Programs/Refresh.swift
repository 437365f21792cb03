import ArgumentParser
import CProcess
import Dispatch
@_spi(Extensions) import Lockbox

struct RefreshCommand: Command {
    static let help: CommandHelp = """
        refresh: Replace a token by what a command prints, in one process at a time.

        The command gets the old value on its standard input, and prints the new one, as `get` and `set` do. It runs in \
        one process at a time, on all machines that share the store; the others wait. The value that is stored then is \
        printed. If the command fails or prints nothing, the old value stays, and the exit status is the command's.

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
        // The commands must not inherit these.
        unsetenv("LOCKBOX_PASSCODE")
        if let descriptor = options.passcodeFd, descriptor > STDERR_FILENO { close(descriptor) }
        do {
            guard let value = try waitForValue(store.lockbox) else { throw store.missing(key) }
            try Output.bytes(value.plain(key))
            if Terminal.isThere(STDOUT_FILENO) { try Output.line("") }
        } catch let failed as CommandFailed {
            store.say("\(command[0].onOneLine) ended with \(failed.status). The old value stays.")
            throw ExitCode(failed.status)
        } catch let error as Lockbox.RefreshError<ArchivedValue> {
            let failure = Failure(error.reason)
            throw Failure(failure.status, "The new value is not stored, and is lost. \(failure.message)")
        }
    }

    private struct CommandFailed: Error { let status: CInt }

    /// Called on the main thread, which may block.
    private func waitForValue(_ lockbox: Lockbox) throws -> ArchivedValue? {
        let done = DispatchSemaphore(value: 0)
        nonisolated(unsafe) var result: Result<ArchivedValue?, any Error> = .success(nil)
        Task.detached {
            do { result = .success(try await value(lockbox)) } catch { result = .failure(error) }
            done.signal()
        }
        done.wait()
        return try result.get()
    }

    private func value(_ lockbox: Lockbox) async throws -> ArchivedValue? {
        var first: ArchivedValue?
        return try await lockbox.refreshed(
            key,
            options: WriteOptions(),
            limits: Lockbox.RefreshLimits(),
            decode: { $0 },
            encode: { $0 },
            isFresh: { value in
                defer { first = first ?? value }
                return try first.map { $0 != value } ?? isFresh(value, lockbox)
            },
            isUsable: { _ in false }
        ) { old in
            setenv("LOCKBOX_MAY_BE_SPENT", old.mayBeSpent ? "1" : "0", 1)
            let input = try old.value.plain(key)
            let count = command.count
            // A machine with one core has one thread for all tasks, and needs it for the signs of life.
            let output = try await lockbox.async { _ in try Self.run(RawArguments.last(count), input: input) }
            return try old.value.replaced(by: output)
        }
    }

    private func isFresh(_ value: ArchivedValue, _ lockbox: Lockbox) throws -> Bool {
        if let age = unlessYoungerThan.flatMap(Lifetime.seconds),
            let item = try lockbox.backend.item(for: ItemKey(prefix: lockbox.keyPrefix, key: key), now: nil),
            // A date in the future is by another clock: one that is a little ahead, or was wrong.
            item.value == value, abs(item.attributes.modified.timeIntervalSinceNow) < TimeInterval(age)
        {
            return true
        }
        guard let unless else { return false }
        let words = ["/bin/sh", "-c", unless].map { (word: String) in strdup(word) }
        defer { for word in words { free(word) } }
        defer { ignore_signals(0) }
        do { _ = try Self.run(words + [nil], input: value.plain(key)) } catch is CommandFailed {
            return false
        }
        return true
    }

    /// Returns what the program prints.
    private static func run(_ arguments: [UnsafeMutablePointer<CChar>?], input: Data) throws -> Data {
        var (toProgram, fromProgram): (CInt, CInt) = (-1, -1)
        let program = start_with_pipes(arguments, ProcessMemory.startLimit, &toProgram, &fromProgram)
        guard program > 0 else { throw Failure.system("No process can be started") }
        // The program may print before it has read everything.
        let isWritten = DispatchSemaphore(value: 0)
        DispatchQueue.global().async { [toProgram] in
            Output.writeAll(input, to: toProgram)
            close(toProgram)
            isWritten.signal()
        }
        let output = Result { try Input.all(from: fromProgram, "The output of the command") }
        close(fromProgram)
        isWritten.wait()
        var status: CInt = 0
        while waitpid(program, &status, 0) < 0 {
            if errno != EINTR { throw Failure.system("It is not known how the command ended") }
        }
        let signal = status & 0x7F
        let code = signal == 0 ? status >> 8 & 0xFF : 128 + signal
        if code != 0 { throw CommandFailed(status: code) }
        return try output.get()
    }
}

extension ArchivedValue {
    /// The bytes as a value of the same kind as this one: text, bytes or JSON.
    fileprivate func replaced(by bytes: Data) throws -> ArchivedValue {
        if bytes.isEmpty {
            throw Failure(.conflict, "The command has printed nothing. The old value stays.")
        }
        if format != .json { return try ArchivedValue(data: bytes, format: format) }
        if (try? decode(String.self, "")) != nil {
            guard let text = String(validating: bytes, as: UTF8.self)?.withoutOnlyNewline, !text.isEmpty
            else {
                throw Failure(.conflict, "The command has printed no text in UTF-8. The old value stays.")
            }
            return try ArchivedValue(data: JSONValueCoder().encode(text), format: .json)
        }
        guard JSONValue.isStrict(bytes) else {
            throw Failure(.conflict, "The command has printed no valid JSON. The old value stays.")
        }
        return try ArchivedValue(data: bytes, format: .json)
    }
}
