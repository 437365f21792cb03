import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxStore

struct UnlockCommand: Command {
    static let help: CommandHelp = """
        unlock: Unlock the store for every program of this user.

        The Linux kernel keeps the keys until `lockbox lock`, the timeout or a restart. If the kernel \
        refuses, as in many containers, the exit status is 2: use --passcode-file with each command \
        instead.

        Example: lockbox unlock --timeout 8h
        """

    @Option(name: [.long, .customLong("for")], help: "Lock again after a time span such as 30m or 8h.")
    var timeout: String?

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let span = timeout.flatMap(Lifetime.seconds)
        if timeout != nil, span == nil {
            throw Failure(.usage, "--timeout takes a time span such as 30m or 8h.")
        }
        let store = try options.store(unlockedBy: secret.secret)
        let before = try store.status()
        if before.lockState == .unprotected { return store.say("The store has no passcode: it is open.") }
        if store.secret == nil, timeout == nil, before.lockState == .unlocked {
            return store.say("The store is unlocked already\(Self.end(before)).")
        }
        let otherwise =
            before.lockState == .unlocked
            ? "The store is unlocked already. Another time limit needs the passcode, but there is no terminal to read it "
                + "from: use --passcode-file." : SecretInput.missing
        let scope = try store.unlock(.user, timeout: span.map { .seconds($0) }, otherwise: otherwise)
        guard scope == .user else {
            throw Failure(
                .locked,
                "The \(store.secret?.name ?? "passcode") is correct, but the kernel cannot keep the keys here, so other "
                    + "programs stay locked out. Use --passcode-file, or set LOCKBOX_PASSCODE_FILE, for each command."
            )
        }
        let after = try store.status()
        if after.lockState != .unlocked {
            return store.say("This key unlocks only the afterFirstUnlock classes.")
        }
        store.tell("The store is unlocked\(Self.end(after)).")
    }

    private static func end(_ status: StoreStatus) -> String {
        status.unlockedUntil.map { ", until \($0.local)" } ?? ", until `lockbox lock` or a restart"
    }
}

struct LockCommand: Command {
    static let help: CommandHelp = """
        lock: Lock the store for every program of this user.

        Items of the afterFirstUnlock classes stay readable until the machine restarts, unless --all is \
        given. Needs no passcode, but checks one that is given, after it has locked the store.

        Example: lockbox lock
        """

    @Flag(help: "Lock the afterFirstUnlock classes too.")
    var all = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.choice.store(for: .any)
        // First of all, so that a wrong secret leaves nothing unlocked.
        try store.backend.lock(includingAfterFirstUnlock: all)
        if store.secret != nil || store.choice.requirements != StoreRequirements() { try store.checkGiven() }
        // A store that cannot be opened may have been unlocked for other programs.
        if case .success(let status) = Result(catching: store.backend.status) {
            guard let status else { throw store.noStore }
            if status.slots.isEmpty { throw LockboxError.passcodeNotSet }
        }
        store.tell(
            all ? "The store is locked." : "The store is locked, except for the afterFirstUnlock classes."
        )
    }
}

/// The options for everything that can unlock a store instead of its passcode.
struct UnlockOptions: ParsableArguments {
    @OptionGroup(title: StoreHelp.title) var recovery: RecoveryOptions

    @Option(file: "Unlock with the key in this file. The store must have a slot for it.")
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

    var secret: UnlockSecret? {
        if let keyFile { return .key(.file(keyFile)) }
        if let keyCredential { return .key(.credential(keyCredential)) }
        if tpm { return .hardware(hardware.tpm) }
        if fido2 { return .hardware(hardware.securityKey) }
        return recovery.secret
    }
}

/// The options for a recovery code, which can stand in for a forgotten passcode.
struct RecoveryOptions: ParsableArguments {
    @Flag(help: "Ask for a recovery code instead of the passcode.")
    var recoveryCode = false

    @Option(file: "Read a recovery code from this file, and use it instead of the passcode.")
    var recoveryCodeFile: String?

    func validate() throws {
        if recoveryCode, recoveryCodeFile != nil {
            throw ValidationError("Give --recovery-code or --recovery-code-file, not both.")
        }
    }

    var secret: UnlockSecret? {
        recoveryCode || recoveryCodeFile != nil ? .recoveryCode(file: recoveryCodeFile) : nil
    }
}

/// A secret that unlocks a store.
enum UnlockSecret {
    case passcode(PasscodeSource)
    /// Typed at the terminal if there is no file.
    case recoveryCode(file: String?)
    case key(DeviceKeySource)
    case hardware(Hardware)

    /// How messages name it.
    var name: String {
        switch self {
        case .passcode: "passcode"
        case .recoveryCode: "recovery code"
        case .key: "key"
        case .hardware(let hardware): hardware.name
        }
    }

    /// The slots that it can open.
    var kind: SlotKind {
        switch self {
        case .passcode: .passcode
        case .recoveryCode: .recoveryCode
        case .key: .key
        case .hardware(let hardware): hardware.kind
        }
    }

    /// The name of the part that can be wrong.
    var secretName: String {
        if case .hardware = self { "PIN" } else { name }
    }
}

extension StoreOptions {
    /// The store, unlocked by another secret than the passcode if one is given.
    func store(unlockedBy secret: UnlockSecret?, for use: StoreUse = .existing) throws -> Store {
        try choice(unlockedBy: secret).store(for: use)
    }

    func choice(unlockedBy secret: UnlockSecret?) throws -> StoreChoice {
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
    /// A call that unlocks the store, or does more.
    typealias Attempt<Result> = (any UnlockMethod) throws -> Result

    /// Runs `body`. If it fails because the store is locked, unlocks the store and runs it again, so that an
    /// open store needs no key derivation. The prompt names the item.
    func unlocking<Result>(for key: String? = nil, _ body: () throws -> Result) throws -> Result {
        try unlockIfGiven()
        do { return try body() } catch let error as LockboxError
            where [.interactionNotAllowed, .classNotProven].contains(error.code)
        {
            given.purpose = key
            try unlock(choice.unlockFor == nil ? .process : .user, timeout: choice.unlockFor)
            return try body()
        }
    }

    /// The secret that was given to unlock the store, or nil if the user may have to type the passcode.
    var secret: UnlockSecret? {
        choice.otherSecret ?? SecretInput.passcode(choice).map { .passcode($0) }
    }

    /// Unlocks the store with a secret that was given, also if it seems to be open: an unlock in the kernel may be forged, and so may
    /// a keybag without slots.
    func unlockIfGiven() throws {
        guard !given.isUsed, let secret else { return }
        if case .recoveryCode(file: nil) = secret { return }
        given.isUsed = true
        _ = try unlockWithGiven { try unlockOnce(with: $0) }
    }

    /// Checks the secret that was given to a command that needs none.
    func checkGiven() throws {
        try check(for: .existing)
        try unlockIfGiven()
    }

    /// Unlocks a locked store before the user is asked for anything else.
    func openIfLocked() throws {
        try unlockIfGiven()
        if let state = try look()?.lockState, [.locked, .beforeFirstUnlock].contains(state) { try unlock() }
    }

    /// Checks the passcode, or what stands in for it, also if the store is unlocked: an attacker at an unlocked
    /// terminal must not be able to change the passcode, or to add a recovery code that could change it. A slot for a
    /// service, which opens less, does not stand in for it.
    ///
    /// The unlock checks it, and not the change that follows: a passcode from a pipe can be read only once.
    func checkOwner() throws {
        given.status = try backend.status()
        if given.status?.slots.isEmpty ?? true { return }
        let otherwise =
            "The current passcode is needed, but there is no terminal to read it from: use --passcode-file, or "
            + "--recovery-code-file if it is forgotten."
        try unlock(otherwise: otherwise)
        guard try backend.status()?.unlockScope == .process else {
            throw Failure(
                .locked,
                "This needs the passcode, a recovery code, or a slot that opens all classes. Nothing was changed."
            )
        }
    }

    /// Unlocks the store with what was given. If the user types it, allows three attempts.
    @discardableResult
    func unlock(
        _ scope: UnlockScope = .process,
        timeout: Duration? = nil,
        otherwise: String = SecretInput.missing
    ) throws -> UnlockScope {
        note("unlocking")
        func attempt(_ method: any UnlockMethod) throws -> UnlockScope {
            try unlockOnce(with: method, scope: scope, timeout: timeout)
        }
        if let scope = try unlockWithGiven(attempt) { return scope }
        guard asks else { throw Failure(.locked, otherwise) }
        guard try status().hasSlot(.passcode) else {
            throw Failure(
                .locked,
                "The store has no passcode. Unlock it with a recovery code or a key: see `lockbox unlock --help`."
            )
        }
        return try threeTimes(.passcode, otherwise, attempt)
    }

    private func unlockOnce(
        with method: any UnlockMethod,
        scope: UnlockScope = .process,
        timeout: Duration? = nil
    ) throws -> UnlockScope {
        let status = given.status
        given.status = nil
        return try backend.unlock(with: method, scope: scope, timeout: timeout, after: status)
    }

    /// Returns nil if the user has to type the passcode.
    func unlockWithGiven<Result>(_ body: Attempt<Result>) throws -> Result? {
        switch secret {
        case nil: return nil
        case .passcode(let passcode): return try body(.passcode(passcode))
        case .recoveryCode(file: nil):
            let otherwise =
                "There is no terminal to read the recovery code from: use --recovery-code-file."
            return try threeTimes(.recoveryCode, otherwise, body)
        case .recoveryCode(let file?): return try named { try body(.recoveryCode(.file(file))) }
        case .key(let key): return try named { try SecretInput.namingKey { try body(.key(key)) } }
        case .hardware(let hardware):
            return try named {
                let method = try hardware.method(pin: hardware.presentPIN)
                // Before the user is asked for a PIN or a touch.
                if try !status().hasSlot(hardware.kind) {
                    throw LockboxError.slotNotFound(slot: hardware.name)
                }
                hardware.announce()
                return try body(method)
            }
        }
    }

    /// Calls `body` with the passcode or the recovery code that the user types.
    func threeTimes<Result>(_ kind: SlotKind, _ otherwise: String, _ body: Attempt<Result>) throws -> Result {
        let key = given.purpose.map { ", for \($0.onOneLine)" } ?? ""
        let asker = ParentProgram.name.map { ", asked by \($0.onOneLine)" } ?? ""
        let name = kind == .passcode ? "Passcode of the store" : "Recovery code"
        func attempt() throws -> Result {
            let typed = try Terminal.secret("\(name)\(key)\(asker): ", otherwise: otherwise)
            if kind == .passcode { return try body(.passcode(typed.source)) }
            return try named { try body(.recoveryCode(typed.source)) }
        }
        for _ in 1...2 {
            do { return try attempt() } catch LockboxError.wrongPasscode {
                let code = (try? status().hasSlot(.recoveryCode)) ?? false
                let remedy = code ? ". A recovery code is for `lockbox unlock --recovery-code`" : ""
                Output.note("lockbox: The passcode is wrong. Try again\(remedy).")
            } catch let wrong as WrongSecret {
                Output.note("lockbox: \(wrong.reason) Try again.")
            }
        }
        return try attempt()
    }

    /// Runs `body`, and says in errors which secret is meant. The library calls each a passcode.
    private func named<Result>(_ body: () throws -> Result) throws -> Result {
        guard let secret = choice.otherSecret else { return try body() }
        do { return try SecretInput.naming(secret.secretName, body) } catch LockboxError.slotNotFound {
            throw Failure(
                .noSuchItem,
                "The store has no \(secret.name). `lockbox slots` shows what unlocks it."
            )
        }
    }

    /// The store at one moment: that of the first look at it, or now if it was unlocked since. Nil if there is none.
    func look() throws -> StoreStatus? {
        if given.status == nil { given.status = try backend.status() }
        return given.status
    }

    func status() throws -> StoreStatus {
        guard let status = try look() else { throw noStore }
        return status
    }

    var noStore: LockboxError { .storeNotFound(location: location) }

    /// A given secret means that the store needs it. A store that has no such slot may have been put in its place.
    func check(for use: StoreUse) throws {
        // First of all, whether it is installed.
        if case .hardware(let hardware) = secret { _ = try hardware.method(pin: nil) }
        given.status = try backend.status()
        guard let status = given.status else {
            guard use == .making, secret == nil else { throw noStore }
            if choice.isNamed {
                tell(
                    "There is no store in \(location.onOneLine) yet. The first item makes one there, without a passcode."
                )
            }
            return
        }
        guard let secret, !status.hasSlot(secret.kind) else { return }
        let name = secret.name
        let remedy =
            secret.kind == .passcode
            ? "leave it out, or set one with `lockbox passcode set`"
            : "leave it out; `lockbox slots` shows what unlocks the store"
        throw Failure(
            .locked,
            "A \(name) was given, but the store \(location.onOneLine) has none. If it was removed, \(remedy). If not, an attacker may "
                + "have replaced the store."
        )
    }
}

extension StoreStatus {
    func hasSlot(_ kind: SlotKind) -> Bool { slots.contains { $0.kind == kind } }
}
