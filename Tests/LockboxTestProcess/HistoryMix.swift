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

    /// Of some 10,000 calls.
    func weight(_ call: HistoryCall) -> Int {
        switch call {
        case .value: 3400
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
        case .copy, .move, .migrate: 25
        case .copyObject, .moveObject: 150
        case .export, .importBackup: self == .items ? 3 : 1
        case .rotate: [.items: 8, .rotations: 300, .passcodes: 20][self]!
        case .setPasscode, .unlock: self == .passcodes ? 20 : 0
        case .changePasscode, .removePasscode, .lock: self == .passcodes ? 10 : 0
        }
    }
}
