import ArgumentParser
import Lockbox

struct RecoveryCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recovery",
        abstract: "Make a recovery code, for use when the passcode is forgotten.",
        discussion: """
            The code is shown once, at the terminal, and has to be typed back. It opens all classes. For scripts: \
            --output-fd receives the code, and --confirm-file (a FIFO, for example) must return it within ten \
            seconds.

            Example: lockbox passcode recovery --label "in the safe"
            """
    )

    @Option(help: "A name, shown by `lockbox slots`.")
    var label = ""

    @Option(help: "Write the code to this open file descriptor instead of the terminal.")
    var outputFd: Int32?

    @Option(help: "Read the code back from this file instead of asking.", completion: .file())
    var confirmFile: String?

    @OptionGroup var resealing: ResealingOptions

    @OptionGroup var secret: UnlockOptions

    @OptionGroup var options: StoreOptions

    func validate() throws {
        if (outputFd == nil) != (confirmFile == nil) {
            throw ValidationError("Give --output-fd and --confirm-file together.")
        }
        if let outputFd, outputFd < STDOUT_FILENO || outputFd == options.passcodeFd {
            throw ValidationError("--output-fd takes a descriptor that is open for writing.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        if outputFd == nil, !Terminal.isThere(STDIN_FILENO) || !Terminal.isThere(STDOUT_FILENO) {
            throw Failure(
                .usage,
                "There is no terminal to show the code at: use --output-fd and --confirm-file."
            )
        }
        try store.checkOwner()
        let code = RecoveryCode()
        let confirmation = try confirmation(of: code)
        try store.makingKeys("recovery", later: resealing.later) { progress in
            do {
                return try store.backend.addRecoveryCode(
                    code,
                    confirmation: confirmation,
                    label: label,
                    resealing: !resealing.later,
                    progress: progress
                )
            } catch LockboxError.wrongPasscode {
                throw WrongSecret(reason: "The code that was given back is not the one shown.")
            } catch LockboxError.invalidPasscode(let reason) {
                throw WrongSecret(reason: "The recovery code was not confirmed: \(reason).")
            }
        }
        try store.report("The recovery code unlocks the store from now on.")
    }

    /// Shows the code, and returns what is given back.
    private func confirmation(of code: RecoveryCode) throws -> PasscodeSource {
        guard let outputFd, let confirmFile else { return try typed(code) }
        try Output.secretLine(code.text, to: outputFd)
        return .file(confirmFile)
    }

    /// A mistake in typing must not cost the code that somebody has just written down.
    private func typed(_ code: RecoveryCode) throws -> PasscodeSource {
        let none = "There is no terminal to show the code at."
        try Terminal.show(
            "Write this recovery code down. It is not shown again.\n\n    \(code.text)\n\n",
            none
        )
        for _ in 1...2 {
            let typed = try Terminal.secret("Type it back: ", otherwise: none)
            if RecoveryCode.isEqual(typed, code) { return typed.source }
            Output.note("lockbox: That is another code, or mistyped. Try again.")
        }
        return try Terminal.secret("Type it back: ", otherwise: none).source
    }
}

extension RecoveryCode {
    fileprivate static func isEqual(_ typed: TypedSecret, _ code: RecoveryCode) -> Bool {
        (try? RecoveryCode(typed: typed.bytes)) == code
    }
}

extension Output {
    /// Writes a line to a descriptor, and closes it, so that its reader need not wait for the end of this process.
    fileprivate static func secretLine(_ text: String, to descriptor: CInt) throws {
        let isWritten = writeAll(Data("\(text)\n".utf8), to: descriptor)
        let code = errno
        if descriptor > STDERR_FILENO { close(descriptor) }
        guard isWritten else {
            throw Failure(
                .inputOutput,
                "Writing to the descriptor \(descriptor) failed: \(String(cString: strerror(code)))."
            )
        }
    }
}
