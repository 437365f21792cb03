import LockboxCore
import LockboxSodium

/// The purpose of a key in the keybag. The numbers are stored.
enum KeyRole: Hashable, Sendable {
    case classKey(Accessibility)
    /// Seals the metadata of items of all classes, so that they can be listed and removed while locked.
    case metadata
    /// Derives file names from prefixes and keys. Never changes, because the names would change too.
    case names

    var number: UInt8 {
        switch self {
        case .classKey(let accessibility): accessibility.number
        case .metadata: 8
        case .names: 9
        }
    }

    /// Which unlock opens the key, if the store has a slot. Nil: the device key alone opens it.
    var level: UnlockLevel? {
        switch self {
        case .metadata, .names, .classKey(.always), .classKey(.alwaysThisDeviceOnly): nil
        case .classKey(.afterFirstUnlock), .classKey(.afterFirstUnlockThisDeviceOnly): .afterFirstUnlock
        case .classKey: .unlocked
        }
    }

    init?(number: UInt8) {
        switch number {
        case 8: self = .metadata
        case 9: self = .names
        default:
            guard let accessibility = Accessibility(number: number) else { return nil }
            self = .classKey(accessibility)
        }
    }
}
