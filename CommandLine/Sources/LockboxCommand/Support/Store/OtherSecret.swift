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
