import ArgumentParser
import Lockbox

struct UnlockCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Unlock the store for every program of this user.",
        discussion: """
            The Linux kernel keeps the keys until `lockbox lock`, the timeout or a restart. If the kernel \
            refuses, as in many containers, the exit status is 2: use --passcode-file with each command \
            instead.

            Example: lockbox unlock --timeout 8h
            """
    )

    @Option(help: "Lock again after a time span such as 30m or 8h.")
    var timeout: String?

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let timeout = try timeout.map { text in
            guard let seconds = Lifetime.seconds(text) else {
                throw Failure(.usage, "--timeout takes a time span such as 30m or 8h.")
            }
            return Duration.seconds(seconds)
        }
        let store = try options.store(unlockedBy: secret.secret)
        // Whoever gives a secret expects a store that needs one.
        if secret.secret == nil, try store.backend.lockState == .unprotected {
            return store.say("The store has no passcode: it is open.")
        }
        if secret.secret == nil, timeout == nil, SecretInput.passcode(store.choice) == nil,
            try store.backend.lockState == .unlocked
        {
            return store.say("The store is unlocked already\(try Self.end(store)).")
        }
        let scope = try store.unlock { try store.backend.unlock(with: $0, scope: .user, timeout: timeout) }
        guard scope == .user else {
            throw Failure(
                .locked,
                "The \(secret.secret?.name ?? "passcode") is correct, but the kernel cannot keep the keys here, so other "
                    + "programs stay locked out. Use --passcode-file, or set LOCKBOX_PASSCODE_FILE, for each command."
            )
        }
        if try store.backend.lockState != .unlocked {
            return store.say("This key unlocks only the afterFirstUnlock classes.")
        }
        store.tell("The store is unlocked\(try Self.end(store)).")
    }

    private static func end(_ store: Store) throws -> String {
        try store.backend.status()?.unlockedUntil.map { ", until \($0.local)" }
            ?? ", until `lockbox lock` or a restart"
    }
}

struct LockCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Lock the store for every program of this user.",
        discussion: """
            Items of the afterFirstUnlock classes stay readable until the machine restarts, unless --all is \
            given.

            Example: lockbox lock
            """
    )

    @Flag(help: "Lock the afterFirstUnlock classes too.")
    var all = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.choice.store(checksPasscode: false)
        // A store that cannot be opened may still be unlocked for other programs.
        if (try? store.backend.lockState) == .unprotected { throw LockboxError.passcodeNotSet }
        try store.backend.lock(includingAfterFirstUnlock: all)
        store.tell(
            all ? "The store is locked." : "The store is locked, except for the afterFirstUnlock classes."
        )
    }
}

/// The options for everything that can unlock a store instead of its passcode.
struct UnlockOptions: ParsableArguments {
    @OptionGroup(title: StoreHelp.title) var recovery: RecoveryOptions

    @Option(help: "Unlock with the key in this file. The store must have a slot for it.", completion: .file())
    var keyFile: String?

    @Option(help: "Unlock with the key in this systemd credential. The store must have a slot for it.")
    var keyCredential: String?

    @Flag(
        help:
            "Unlock with this machine's TPM. The store must have a slot for it. Asks for the PIN if the slot has one."
    )
    var tpm = false

    @Flag(help: "Unlock with a FIDO2 security key, which must be touched. The store must have a slot for it.")
    var fido2 = false

    @OptionGroup(title: StoreHelp.title) var hardware: HardwareOptions

    func validate() throws {
        let given = [recovery.secret != nil, keyFile != nil, keyCredential != nil, tpm, fido2]
        if given.count(where: \.self) > 1 {
            throw ValidationError("Give one recovery code, one key, or one of --tpm and --fido2.")
        }
    }

    var secret: OtherSecret? {
        if let keyFile { return .key(.file(keyFile)) }
        if let keyCredential { return .key(.credential(keyCredential)) }
        if tpm { return .hardware(hardware.hardware(.tpm)) }
        if fido2 { return .hardware(hardware.hardware(.fido2)) }
        return recovery.secret
    }
}

/// The options for a recovery code, which can stand in for a forgotten passcode.
struct RecoveryOptions: ParsableArguments {
    @Flag(help: "Ask for a recovery code instead of the passcode.")
    var recoveryCode = false

    @Option(
        help: "Read a recovery code from this file, and use it instead of the passcode.",
        completion: .file()
    )
    var recoveryCodeFile: String?

    func validate() throws {
        if recoveryCode, recoveryCodeFile != nil {
            throw ValidationError("Give --recovery-code or --recovery-code-file, not both.")
        }
    }

    var secret: OtherSecret? {
        recoveryCodeFile.map { .recoveryCode(file: $0) } ?? (recoveryCode ? .typedRecoveryCode : nil)
    }
}

/// A secret that unlocks a store instead of its passcode.
enum OtherSecret {
    case typedRecoveryCode
    case recoveryCode(file: String)
    case key(DeviceKeySource)
    case hardware(Hardware)

    /// How messages name it.
    var name: String {
        switch self {
        case .typedRecoveryCode, .recoveryCode: "recovery code"
        case .key: "key"
        case .hardware(let hardware): hardware.kind.name
        }
    }

    /// The slots that it can open.
    var kind: SlotKind {
        switch self {
        case .typedRecoveryCode, .recoveryCode: .recoveryCode
        case .key: .key
        case .hardware(let hardware): hardware.kind.slot
        }
    }

    /// The name of the part that can be wrong.
    var secretName: String {
        if case .hardware = self { "PIN" } else { name }
    }
}

extension StoreOptions {
    /// The store, unlocked by another secret than the passcode if one is given.
    func store(unlockedBy secret: OtherSecret?, checksPasscode: Bool = true) throws -> Store {
        try choice(unlockedBy: secret).store(checksPasscode: checksPasscode)
    }

    func choice(unlockedBy secret: OtherSecret?) throws -> StoreChoice {
        var choice = choice
        if secret != nil, choice.passcodeFile != nil || choice.passcodeFd != nil {
            throw Failure(.usage, "Give the passcode or another secret, not both.")
        }
        choice.otherSecret = secret
        return choice
    }
}

/// A recovery code or a key that opens no slot, or that is none.
struct WrongSecret: Error {
    let reason: String
}

/// How a command unlocks its store.
extension Store {
    /// Runs `body`. If it fails because the store is locked, unlocks the store and runs it again, so that an
    /// open store needs no key derivation. The prompt names the item.
    func unlocking<Result>(for key: String? = nil, _ body: () throws -> Result) throws -> Result {
        try unlockIfGiven()
        do { return try body() } catch LockboxError.interactionNotAllowed {
            given.purpose = key
            let span = choice.unlockFor
            try unlock {
                _ = try backend.unlock(with: $0, scope: span == nil ? .process : .user, timeout: span)
            }
            return try body()
        }
    }

    /// Unlocks the store with a secret that was given, also if it seems to be open: an unlock in the kernel may be forged, and so may
    /// a keybag without slots.
    private func unlockIfGiven() throws {
        if given.isUsed || choice.otherSecret == nil && SecretInput.passcode(choice) == nil { return }
        if case .typedRecoveryCode = choice.otherSecret { return }
        given.isUsed = true
        _ = try unlockWithGiven { try backend.unlock(with: $0) }
    }

    /// Unlocks a locked store before the user is asked for anything else.
    func openIfLocked() throws {
        try unlockIfGiven()
        switch try backend.lockState {
        case .unprotected, .unlocked: break
        case .locked, .beforeFirstUnlock: try unlock { _ = try backend.unlock(with: $0) }
        }
    }

    /// Checks the passcode, or what stands in for it, also if the store is unlocked: whoever has found an unlocked
    /// terminal must not be able to change the passcode, or to add a recovery code that could change it. A slot for a
    /// service, which opens less, does not stand in for it.
    ///
    /// The unlock checks it, and not the change that follows: a passcode from a pipe can be read only once.
    func checkOwner() throws {
        if try backend.slots.isEmpty { return }
        let otherwise =
            "The current passcode is needed, but there is no terminal to read it from: use --passcode-file, or "
            + "--recovery-code-file if it is forgotten."
        try unlock(otherwise: otherwise) { _ = try backend.unlock(with: $0) }
        guard try backend.status()?.unlockScope == .process else {
            throw Failure(
                .locked,
                "This needs the passcode, a recovery code, or a slot that opens all classes. Nothing was changed."
            )
        }
    }

    /// Calls `body` with what was given to unlock the store. If the user types it, allows three attempts.
    func unlock<Result>(otherwise: String = SecretInput.missing, _ body: (any UnlockMethod) throws -> Result)
        throws
        -> Result
    {
        note("unlocking")
        if let result = try unlockWithGiven(body) { return result }
        guard asks else { throw Failure(.locked, otherwise) }
        guard try hasPasscode else {
            throw Failure(
                .locked,
                "The store has no passcode. Unlock it with a recovery code or a key: see `lockbox unlock --help`."
            )
        }
        return try threeTimes(.passcode, otherwise, body)
    }

    /// Returns nil if the user has to type the passcode.
    func unlockWithGiven<Result>(_ body: (any UnlockMethod) throws -> Result) throws -> Result? {
        switch choice.otherSecret {
        case .typedRecoveryCode:
            let otherwise =
                "There is no terminal to read the recovery code from: use --recovery-code-file."
            return try threeTimes(.recoveryCode, otherwise, body)
        case .recoveryCode(let file): return try named { try body(.recoveryCode(.file(file))) }
        case .key(let key): return try named { try body(.key(key)) }
        case .hardware(let hardware):
            return try named {
                let method = try hardware.method(pin: hardware.presentPIN)
                // Before anybody is asked for a PIN or a touch.
                guard try backend.slots.contains(where: { $0.kind == hardware.kind.slot }) else {
                    throw LockboxError.slotNotFound(slot: hardware.kind.name)
                }
                hardware.announce()
                return try body(method)
            }
        case nil: return try SecretInput.passcode(choice).map { try body(.passcode($0)) }
        }
    }

    /// A secret that somebody types.
    enum Typed {
        case passcode, recoveryCode

        var question: String { self == .passcode ? "Passcode of the store" : "Recovery code" }

        func method(_ typed: TypedSecret) -> any UnlockMethod {
            self == .passcode ? .passcode(typed.source) : .recoveryCode(typed.source)
        }
    }

    func threeTimes<Result>(
        _ typed: Typed,
        _ otherwise: String,
        _ body: (any UnlockMethod) throws -> Result
    ) throws -> Result {
        let key = given.purpose.map { ", for \($0.onOneLine)" } ?? ""
        let asker = ParentProgram.name.map { ", asked by \($0.onOneLine)" } ?? ""
        func attempt() throws -> Result {
            let question = "\(typed.question)\(key)\(asker): "
            let method = try typed.method(Terminal.secret(question, otherwise: otherwise))
            return try typed == .passcode ? body(method) : named { try body(method) }
        }
        for _ in 1...2 {
            do { return try attempt() } catch LockboxError.wrongPasscode {
                Output.note("lockbox: The passcode is wrong. Try again.")
            } catch let wrong as WrongSecret {
                Output.note("lockbox: \(wrong.reason) Try again.")
            }
        }
        return try attempt()
    }

    /// Runs `body`, and says in errors which secret is meant. The library calls each a passcode or a device key.
    private func named<Result>(_ body: () throws -> Result) throws -> Result {
        guard let secret = choice.otherSecret else { return try body() }
        do { return try SecretInput.naming(secret.secretName, body) } catch LockboxError.invalidDeviceKey(
            let source,
            let reason
        ) {
            throw Failure.invalidKey(source, reason)
        } catch LockboxError.slotNotFound {
            throw Failure(
                .noSuchItem,
                "The store has no \(secret.name). `lockbox slots` shows what unlocks it."
            )
        }
    }

    // MARK: The passcode

    var hasPasscode: Bool {
        get throws { try backend.slots.contains { $0.kind == .passcode } }
    }

    /// A given secret means that the store needs it. A store that has no such slot may have been put in its place.
    func checkGivenSecret() throws {
        // First of all, whether it is installed.
        if case .hardware(let hardware) = choice.otherSecret { _ = try hardware.method(pin: nil) }
        let kind = choice.otherSecret?.kind ?? (SecretInput.passcode(choice) == nil ? nil : .passcode)
        guard let kind, try !backend.slots.contains(where: { $0.kind == kind }) else { return }
        let name = choice.otherSecret?.name ?? "passcode"
        let advice =
            kind == .passcode
            ? "Set one with `lockbox passcode set`, or leave the passcode out."
            : "`lockbox slots` shows what unlocks it."
        if !isMade {
            throw Failure(
                .locked,
                "A \(name) was given, but there is no store in \(location.onOneLine). Check --directory, or leave the \(name) out."
            )
        }
        throw Failure(
            .locked,
            "A \(name) was given, but the store \(location.onOneLine) has none: somebody may have replaced it. \(advice)"
        )
    }
}
