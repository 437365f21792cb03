@testable import Lockbox
@testable import LockboxCore

/// How often each call is made.
enum HistoryCall: CaseIterable {
    case value, item, attributes, list, prefixes
    case write, update, take, remove, batch, changeClass, removeAll, removeExpired
    case rotate, setPasscode, changePasscode, removePasscode, unlock, lock
    case export, importBackup, copy, move, migrate
    case copyObject, moveObject
}

enum HistoryMix: String {
    /// Items above all. Argon2id makes backups slow, so they are rare.
    case items
    /// Rotations that take their time, one after the other and beside each other.
    case rotations
    /// Passcodes come and go, and the store is locked and unlocked.
    case passcodes
    /// Items in a storage that cannot be reached at times: more writes, and fewer calls that may end half done.
    case cluster
    /// Half of the items are absent.
    case removals

    /// Of some 10,000 calls.
    func weight(_ call: HistoryCall) -> Int {
        if self == .removals {
            return [.write: 4, .remove: 4, .value: 1, .item: 1, .attributes: 1][call] ?? 0
        }
        return switch call {
        case .value: self == .cluster ? 800 : 3400
        case .item: 1400
        case .attributes: 800
        case .list: 900
        case .prefixes: 200
        case .write: 1400
        case .update: 500
        case .take: 150
        case .remove: 300
        case .batch: 200
        case .changeClass: 300
        case .removeAll: 60
        case .removeExpired: 80
        case .copy, .move, .migrate: self == .cluster ? 0 : 25
        case .copyObject, .moveObject: 150
        case .export, .importBackup: [.items: 3, .cluster: 0][self] ?? 1
        case .rotate: [.items: 8, .rotations: 300, .passcodes: 20, .cluster: 4][self]!
        case .setPasscode, .unlock: self == .passcodes ? 20 : 0
        case .changePasscode, .removePasscode, .lock: self == .passcodes ? 10 : 0
        }
    }

    /// The classes that items are given.
    var classes: [Accessibility] {
        switch self {
        case .items, .rotations: Accessibility.allCases.filter { $0 != .whenPasscodeSetThisDeviceOnly }
        case .passcodes: Accessibility.allCases
        case .cluster, .removals: Accessibility.allCases.filter { !$0.isThisDeviceOnly }
        }
    }
}
