import ArgumentParser
import Lockbox

/// What unlocks a store instead of its passcode.
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

    /// What can be wrong about it.
    var secretName: String {
        if case .hardware = self { "PIN" } else { name }
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

/// The options for everything that can unlock a store instead of its passcode.
struct UnlockOptions: ParsableArguments {
    @OptionGroup var recovery: RecoveryOptions

    @Option(help: "Unlock with the key in this file, one of the store's slots.", completion: .file())
    var keyFile: String?

    @Option(help: "Unlock with the key in this systemd credential, one of the store's slots.")
    var keyCredential: String?

    @Flag(
        help:
            "Unlock with this machine's TPM, one of the store's slots. Asks for the PIN if the slot has one."
    )
    var tpm = false

    @Flag(help: "Unlock with a security key (FIDO2), one of the store's slots, which has to be touched.")
    var fido2 = false

    @OptionGroup var hardware: HardwareOptions

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

extension StoreOptions {
    /// The store, unlocked by another secret than the passcode if one is given.
    func store(unlockedBy secret: OtherSecret?, checksPasscode: Bool = true) throws -> Store {
        try choice(unlockedBy: secret).store(checksPasscode: checksPasscode)
    }

    func choice(unlockedBy secret: OtherSecret?) throws -> StoreChoice {
        var choice = choice
        if secret != nil, choice.passcodeFile != nil || choice.passcodeFd != nil {
            throw Failure(.usage, "Give the passcode or what stands in for it, not both.")
        }
        choice.otherSecret = secret
        return choice
    }
}
