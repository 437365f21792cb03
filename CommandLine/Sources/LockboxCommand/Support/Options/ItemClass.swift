import ArgumentParser
import Lockbox

/// An accessibility class, given by its name.
enum ItemClass: String, CaseIterable, ExpressibleByArgument {
    case whenUnlocked, afterFirstUnlock, always
    case whenUnlockedThisDeviceOnly, afterFirstUnlockThisDeviceOnly, alwaysThisDeviceOnly
    case whenPasscodeSetThisDeviceOnly

    var accessibility: Accessibility {
        switch self {
        case .whenUnlocked: .whenUnlocked
        case .afterFirstUnlock: .afterFirstUnlock
        case .always: .always
        case .whenUnlockedThisDeviceOnly: .whenUnlockedThisDeviceOnly
        case .afterFirstUnlockThisDeviceOnly: .afterFirstUnlockThisDeviceOnly
        case .alwaysThisDeviceOnly: .alwaysThisDeviceOnly
        case .whenPasscodeSetThisDeviceOnly: .whenPasscodeSetThisDeviceOnly
        }
    }

    static var allValueDescriptions: [String: String] {
        [
            "whenUnlocked": "while the store is unlocked",
            "afterFirstUnlock": "from the first unlock on, also after a lock",
            "always": "always",
            "whenUnlockedThisDeviceOnly": "like whenUnlocked; not in backups",
            "afterFirstUnlockThisDeviceOnly": "like afterFirstUnlock; not in backups",
            "alwaysThisDeviceOnly": "like always; not in backups",
            "whenPasscodeSetThisDeviceOnly":
                "while unlocked, only in a store with a passcode; not in backups",
        ]
    }
}
