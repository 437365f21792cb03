import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxStore

struct PasscodeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passcode",
        abstract: "Set, change or remove the store's passcode, or make a recovery code.",
        discussion: """
            Each of these creates new keys and reseals every item, so that the old passcode cannot open items \
            written afterwards. Copies made earlier can still be opened.

            Example: lockbox passcode set
            """,
        subcommands: [Set.self, Change.self, Remove.self, RecoveryCommand.self]
    )

    struct NewPasscode: ParsableArguments {
        @Option(file: "Read the new passcode from this file instead of asking.")
        var newPasscodeFile: String?

        @Option(help: "The cost of each unlock and each guess.")
        var strength = PasscodeStrength.moderate

        @OptionGroup var resealing: ResealingOptions

        typealias Call = (PasscodeSource, PasscodeStrength, Bool, Store.Progress) throws -> RotationReport

        /// - Parameter call: Sets or changes the passcode.
        func apply(to store: Store, _ call: @escaping Call) throws {
            try store.makingKeys("passcode", later: resealing.later) {
                // In here, so that it is gone when the rest is printed.
                let option = "--new-passcode-file"
                let passcode = try SecretInput.new("passcode", file: newPasscodeFile, option: option)
                return try call(passcode, strength, !resealing.later, $0)
            }
        }
    }

    struct Set: Command {
        static let help: CommandHelp = """
            set: Set the passcode of a store that has none.

            Creates the store if there is none.

            Example: lockbox passcode set
            """

        @OptionGroup var new: NewPasscode
        @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
        @OptionGroup(title: StoreHelp.title) var options: StoreOptions

        func run() throws {
            let store = try store()
            // Checked before the user is asked for a passcode.
            if try store.backend.status()?.hasSlot(.passcode) ?? false {
                throw LockboxError.passcodeAlreadySet
            }
            try store.checkOwner()
            try new.apply(to: store, store.backend.setPasscode)
            try store.report(
                "The passcode is set. `lockbox unlock` unlocks the store for all programs of this user."
            )
        }

        private func store() throws -> Store {
            var choice = options.choice
            // It is this call that makes the store what --require-passcode requires.
            choice.requirements.protection = .none
            choice.otherSecret = secret.secret
            return try choice.store(for: .any)
        }
    }

    struct Change: Command {
        static let help: CommandHelp = """
            change: Change the passcode.

            The current passcode is needed, even if the store is unlocked. A recovery code can be used instead.

            Example: lockbox passcode change --passcode-file old --new-passcode-file new
            """

        @OptionGroup var new: NewPasscode
        @OptionGroup(title: StoreHelp.title) var recovery: RecoveryOptions
        @OptionGroup(title: StoreHelp.title) var options: StoreOptions

        func run() throws {
            let store = try PasscodeCommand.store(options, recovery)
            try new.apply(to: store) {
                try store.backend.changePasscode(to: $0, strength: $1, resealing: $2, progress: $3)
            }
            try store.report("The passcode is changed.")
        }
    }

    struct Remove: Command {
        static let help: CommandHelp = """
            remove: Remove the passcode.

            The current passcode is needed, even if the store is unlocked. A recovery code can be used \
            instead. If nothing else unlocks the store, it is always open from then on. If it has other slots, \
            such as a recovery code, they are needed from then on, unless --all-slots removes them too. Items of \
            the class whenPasscodeSetThisDeviceOnly are destroyed. In both cases it asks for confirmation first. \
            Without a terminal, --keep-slots or --all-slots, and --yes, are needed.

            Example: lockbox passcode remove
            """

        @Flag(name: .shortAndLong, help: "Do not ask whether items may be destroyed.")
        var yes = false

        /// The fate of the other slots.
        enum Others: String, EnumerableFlag {
            case keepSlots, allSlots

            static func help(for value: Self) -> ArgumentHelp? {
                value == .keepSlots
                    ? "Keep the other slots, which then open the store." : "Remove all other slots too."
            }
        }

        @Flag var others: Others?

        @OptionGroup var resealing: ResealingOptions
        @OptionGroup(title: StoreHelp.title) var recovery: RecoveryOptions
        @OptionGroup(title: StoreHelp.title) var options: StoreOptions

        func run() throws {
            let store = try PasscodeCommand.store(options, recovery)
            let count = try Self.bound(store.backend)
            if count > 0, !yes {
                let items = "Items that exist only with a passcode: \(count)."
                let otherwise =
                    "\(items) There is no terminal to ask at: use --yes to destroy them. Nothing was changed."
                try Terminal.confirm("\(items) Destroy them?", otherwise: otherwise)
            }
            let slots = try store.status().slots.filter { $0.kind != .passcode }
            if others == nil, !slots.isEmpty { try Self.confirmKeeping(slots) }
            try store.makingKeys("passcode", later: resealing.later) { progress in
                try store.backend.removePasscode(
                    includingOtherSlots: others == .allSlots,
                    resealing: !resealing.later,
                    progress: progress
                )
            }
            try store.report("The passcode is removed.")
            try store.sayIfOpen()
        }

        private static func confirmKeeping(_ slots: [UnlockSlot]) throws {
            let names = slots.map { "\($0.kind)\($0.label.isEmpty ? "" : " (\($0.label.onOneLine))")" }
            let rest = "Without the passcode, only these open the store: \(names.joined(separator: ", "))."
            let otherwise =
                "\(rest) There is no terminal to ask at: use --keep-slots, or --all-slots to remove them too. "
                + "Nothing was changed."
            let refusal = "Nothing was changed. --all-slots removes them too."
            try Terminal.confirm("\(rest) Remove the passcode?", otherwise: otherwise, refusal: refusal)
        }

        /// The number of items that would be destroyed with the passcode.
        private static func bound(_ backend: SealedBackend) throws -> Int {
            var (count, unreadable) = (0, Unreadable())
            for prefix in try backend.prefixes(unreadable: { unreadable.add($0) }) {
                try backend.forEachItem(prefix: prefix, now: nil, unreadable: { unreadable.add($0) }) {
                    if $1.accessibility == .whenPasscodeSetThisDeviceOnly { count += 1 }
                }
            }
            unreadable.note()
            return count
        }
    }

    /// A store with a passcode, which the user has been asked for.
    private static func store(_ options: StoreOptions, _ recovery: RecoveryOptions) throws -> Store {
        let store = try options.store(unlockedBy: recovery.secret)
        if try !store.status().hasSlot(.passcode) { throw LockboxError.passcodeNotSet }
        try store.checkOwner()
        return store
    }
}

extension Store {
    func sayIfOpen() throws {
        if try backend.status()?.slots.isEmpty ?? true {
            say("The store has no slots now. It is always open with its device key.")
        }
    }
}

struct RecoveryCommand: Command {
    static let help: CommandHelp = """
        recovery: Make a recovery code, for use when the passcode is forgotten.

        The code is shown once, at the terminal, and has to be typed back. It opens all classes where --recovery-code asks for it, and \
        is no passcode. For scripts: \
        --output-fd receives the code, and --confirm-file (a FIFO, for example) must return it within ten \
        seconds.

        Example: lockbox passcode recovery --label "in the safe"
        """

    @Option(help: "A name, shown by `lockbox slots`.")
    var label = ""

    @Option(help: "Write the code to this open file descriptor instead of the terminal.")
    var outputFd: Int32?

    @Option(file: "Read the code back from this file instead of asking.")
    var confirmFile: String?

    @OptionGroup var resealing: ResealingOptions

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if (outputFd == nil) != (confirmFile == nil) {
            throw ValidationError("Give --output-fd and --confirm-file together.")
        }
        if let outputFd, outputFd < STDOUT_FILENO || outputFd == options.passcodeFd {
            throw ValidationError("--output-fd takes a descriptor that is open for writing.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret, for: .making)
        if outputFd == nil, !Terminal.isThere(STDIN_FILENO) || !Terminal.isThere(STDOUT_FILENO) {
            throw Failure(.usage, "\(Self.noTerminal): use --output-fd and --confirm-file.")
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

    private static let noTerminal = "There is no terminal to show the code at"

    /// Shows the code, and returns what is given back. A mistake in typing must not cost what the user has just written down. After
    /// three attempts, the library says what is wrong with it.
    private func confirmation(of code: RecoveryCode) throws -> PasscodeSource {
        if let outputFd, let confirmFile {
            try Output.secretLine(code.text, to: outputFd)
            return .file(confirmFile)
        }
        let none = "\(Self.noTerminal)."
        try Terminal.show(
            "Write this recovery code down. It is not shown again.\n\n    \(code.text)\n\n",
            orElse: Failure(.locked, none)
        )
        for _ in 1...2 {
            let typed = try Terminal.secret("Type it back: ", otherwise: none)
            if (try? RecoveryCode(typed: typed.bytes))?.isSame(as: code) == true { return typed.source }
            Output.note("lockbox: That is another code, or mistyped. Try again.")
        }
        return try Terminal.secret("Type it back: ", otherwise: none).source
    }
}

extension Output {
    /// Writes a line to a descriptor, and closes it, so that its reader need not wait for the end of this process.
    static func secretLine(_ text: String, to descriptor: CInt) throws {
        let isWritten = writeAll(Data("\(text)\n".utf8), to: descriptor)
        let code = errno
        if descriptor > STDERR_FILENO { close(descriptor) }
        if !isWritten { throw Failure.system("Writing to the descriptor \(descriptor) failed", code) }
    }
}
