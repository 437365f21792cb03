import Clibsodium
import Foundation

/// A store's keys: reads the keybag, makes it for a new store, rewrites it, and knows which keys are open.
///
/// Locks are taken in this order: a scope's lock of the storage; ``changes``; the storage's lock of the root.
final class KeyStore<Storage: RecordStorage>: Sendable {
    private let storage: Storage
    private let source: DeviceKey.Source
    private let opened = Protected<OpenedKeybag?>(nil)
    /// Held while ``opened`` is replaced, so that a keybag being read does not undo a `lock()`.
    private let changes = NSRecursiveLock()

    init(storage: Storage, deviceKey: DeviceKey) {
        self.storage = storage
        source = deviceKey.source
    }

    /// The store's keys; nil if there is no store and none is to be made.
    func keyring(creating: Bool) throws -> Keyring? {
        if let opened = opened.withLock({ $0 }) { return opened.keyring }
        if let opened = try load() { return opened.keyring }
        if try hasItems() {
            // The keybag comes before the first item: another process may just have made both.
            if let opened = try load() { return opened.keyring }
            throw keybagIsMissing
        }
        return creating ? try create().keyring : nil
    }

    /// The keys as they are in the store now.
    ///
    /// - Parameter creating: whether a store is to be made if there is none; otherwise that is an error.
    func currentKeyring(creating: Bool = false) throws -> Keyring {
        if creating { _ = try keyring(creating: true) }
        return try current().keyring
    }

    var isLockedIntoMemory: Bool { opened.withLock { $0?.keyring.isLockedIntoMemory } ?? true }

    /// Throws if the store was there, and has gone.
    func checkIsThere() throws {
        if try storage.revision(of: Self.keybagRecord) == nil { throw keybagIsMissing }
    }

    // MARK: Passcode and lock

    var lockState: LockState {
        get throws {
            guard try keyring(creating: false) != nil else { return .noPasscode }
            let opened = try current()
            if opened.keybag.passcode == nil { return .noPasscode }
            if opened.keyring.isOpen(.whenUnlocked) { return .unlocked }
            return opened.keyring.isOpen(.afterFirstUnlock) ? .locked : .beforeFirstUnlock
        }
    }

    /// One run of Argon2id, outside every lock.
    func unlock(_ passcode: Passcode) throws {
        while true {
            guard try keyring(creating: false) != nil else { return }
            guard let block = try current().keybag.passcode else { return }
            let key = try derive(passcode) { try block.key($0) }
            let isDone = try changes.withLock {
                // Another process may have changed the passcode meanwhile.
                guard try current().keybag.passcode == block else { return false }
                _ = try load(passcodeKey: WrappingKeys.combine(key, deviceKey()))
                return true
            }
            if isDone { return }
        }
    }

    /// Forgets, and wipes, what only an unlock gives back.
    func lock() throws {
        try changes.withLock {
            guard let opened = opened.withLock({ $0 }), opened.keybag.passcode != nil else { return }
            let kept = opened.keyring.keys { !$0.isWipedByLock }
            try remember(opened.keybag, kept, passcodeKey: nil, opened.revision)
        }
    }

    func setPasscode(_ passcode: Passcode, strength: PasscodeStrength) throws {
        _ = try keyring(creating: true)
        guard try current().keybag.passcode == nil else { throw LockboxError.passcodeAlreadySet }
        let (block, key) = try derive(passcode) { try PasscodeBlock.make($0, strength: strength) }
        try rewrite { opened in
            guard opened.keybag.passcode == nil else { throw LockboxError.passcodeAlreadySet }
            let slot = Keyring.Slot(.classKey(.whenPasscodeSetThisDeviceOnly), opened.keybag.epoch)
            let keys = opened.keyring.keys { _ in true } + [(slot, try .random())]
            return (block, keys, key)
        }
    }

    /// Only what is unlocked can be wrapped anew: who can do this has every key already.
    func changePasscode(to passcode: Passcode, strength: PasscodeStrength) throws {
        try checkIsUnlocked()
        let (block, key) = try derive(passcode) { try PasscodeBlock.make($0, strength: strength) }
        try rewrite { (block, $0.keyring.keys { _ in true }, key) }
    }

    func removePasscode() throws {
        try checkIsUnlocked()
        try rewrite { opened in
            (nil, opened.keyring.keys { $0 != .classKey(.whenPasscodeSetThisDeviceOnly) }, nil)
        }
    }

    /// How often Argon2id has run for this store, for tests.
    let derivations = Protected(0)

    private func derive<Result>(
        _ passcode: Passcode,
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result {
        derivations.withLock { $0 += 1 }
        return try passcode.withBytes(body)
    }

    private func checkIsUnlocked() throws {
        guard try keyring(creating: false) != nil else { throw LockboxError.passcodeNotSet }
        try check(isUnlocked: current())
    }

    private func check(isUnlocked opened: OpenedKeybag) throws {
        if opened.keybag.passcode == nil { throw LockboxError.passcodeNotSet }
        if !opened.keyring.isComplete { throw LockboxError.interactionNotAllowed(.whenUnlocked) }
    }

    // MARK: Rotation

    /// Adds new keys for every class, under which items are sealed from now on; unless a rotation is under way, which
    /// is to be carried on.
    func beginRotation() throws {
        try changes.withLock {
            try storage.withLock(on: nil) {
                let opened = try current()
                if !opened.keyring.isComplete { throw LockboxError.interactionNotAllowed(.whenUnlocked) }
                if opened.keybag.isRotating { return }
                let hasPasscode = opened.keybag.passcode != nil
                // Without it, another process has changed the passcode since this one was unlocked.
                if hasPasscode, opened.passcodeKey == nil {
                    throw LockboxError.interactionNotAllowed(.whenUnlocked)
                }
                let device = try deviceKey()
                let epoch = opened.keybag.epoch + 1
                let keys =
                    try opened.keyring.keys { _ in true }
                    + Keybag.newKeys(epoch: epoch, hasPasscode: hasPasscode)
                let keybag = opened.keybag.next(
                    passcode: opened.keybag.passcode,
                    epoch: epoch,
                    keys: keys,
                    wrappedBy: WrappingKeys(device: device, passcode: opened.passcodeKey)
                )
                try write(keybag, device)
                _ = try load()
            }
        }
    }

    /// Drops the keys that no item is sealed under any more.
    func finishRotation() throws {
        try changes.withLock {
            try storage.withLock(on: nil) {
                let keybag = try current().keybag
                guard keybag.isRotating else { return }
                try write(keybag.dropping { $0.role != .names && $0.epoch != keybag.epoch }, deviceKey())
                _ = try load()
            }
        }
    }

    /// Replaces the keybag by one with another passcode: one file, whatever the number of items.
    private func rewrite(
        _ change: (OpenedKeybag) throws -> (PasscodeBlock?, [Keyring.Entry], passcodeKey: SecretKey?)
    ) throws {
        try changes.withLock {
            try storage.withLock(on: nil) {
                let opened = try current()
                if opened.keybag.passcode != nil { try check(isUnlocked: opened) }
                let device = try deviceKey()
                let (block, keys, key) = try change(opened)
                let wrapping = WrappingKeys(
                    device: device,
                    passcode: try key.map { try WrappingKeys.combine($0, device) }
                )
                let keybag = opened.keybag.next(
                    passcode: block,
                    epoch: opened.keybag.epoch,
                    keys: keys,
                    wrappedBy: wrapping
                )
                try write(keybag, device)
                _ = try load(passcodeKey: wrapping.passcode)
            }
        }
    }

    // MARK: The records

    private static var keybagRecord: RecordName { RecordName(name: "keybag") }
    private static var deviceKeyRecord: RecordName { RecordName(name: "device-key") }

    private func current() throws -> OpenedKeybag {
        let revision = try storage.revision(of: Self.keybagRecord)
        if let opened = opened.withLock({ $0 }), opened.revision == revision { return opened }
        guard let opened = try load() else { throw keybagIsMissing }
        return opened
    }

    /// Reads the keybag. What this process had open stays open, also if the passcode has changed; what it could not
    /// open then, it opens if `passcodeKey`, or the one it has, fits.
    private func load(passcodeKey: SecretKey? = nil) throws -> OpenedKeybag? {
        try changes.withLock {
            // Taken first: if the keybag changes in between, it is only read once more.
            guard let revision = try storage.revision(of: Self.keybagRecord) else { return nil }
            let device = try deviceKey()
            let keybag = try read(Self.keybagRecord, maximum: Keybag.maximumLength) { record in
                try Keybag(UnsafeRawBufferPointer(record), deviceKey: device)
            }
            guard let keybag else { throw keybagIsMissing }
            let before = opened.withLock { $0 }
            if let before, before.keybag.storeID != keybag.storeID { throw keybagIsForeign }
            let known = before?.keybag.passcode == keybag.passcode ? before?.passcodeKey : nil
            let wrapping = WrappingKeys(device: device, passcode: passcodeKey ?? known)
            var keys = try faults(of: Self.keybagRecord) { try keybag.unwrap(with: wrapping) }
            let slots = Set(keybag.entries.map(\.slot)).subtracting(keys.map(\.slot))
            keys +=
                before?.keyring.keys(where: \.survivesChangeOfPasscode).filter { slots.contains($0.slot) }
                ?? []
            return try remember(keybag, keys, passcodeKey: wrapping.passcode, revision)
        }
    }

    @discardableResult
    private func remember(
        _ keybag: Keybag,
        _ keys: [Keyring.Entry],
        passcodeKey: SecretKey?,
        _ revision: RecordRevision
    ) throws -> OpenedKeybag {
        let keyring = try faults(of: Self.keybagRecord) { try Keyring(keybag: keybag, keys: keys) }
        try checkItems(belongTo: keyring)
        let opened = OpenedKeybag(
            keybag: keybag,
            keyring: keyring,
            passcodeKey: passcodeKey,
            revision: revision
        )
        self.opened.withLock { $0 = opened }
        return opened
    }

    /// Makes a new store's keys, unless another process has made them meanwhile.
    private func create() throws -> OpenedKeybag {
        try changes.withLock {
            try storage.withLock(on: nil) {
                if let opened = try load() { return opened }
                if try hasItems() { throw keybagIsMissing }
                let device = try existingDeviceKey() ?? createDeviceKey()
                try write(Keybag.create(deviceKey: device), device)
                guard let opened = try load() else { throw keybagIsMissing }
                return opened
            }
        }
    }

    private func write(_ keybag: Keybag, _ device: SecretKey) throws {
        try storage.replace(Self.keybagRecord, keybag.encoded(deviceKey: device))
    }

    private func deviceKey() throws -> SecretKey {
        if let key = try existingDeviceKey() { return key }
        throw LockboxError.corrupt(
            record: storage.location(of: Self.deviceKeyRecord),
            reason: "it is missing"
        )
    }

    /// Nil if it is to be in the store, and is not.
    private func existingDeviceKey() throws -> SecretKey? {
        if case .given(let name, let read) = source { return try DeviceKey.key(name, read) }
        return try read(Self.deviceKeyRecord, maximum: DeviceKeyRecord.length) { record in
            defer { sodium_memzero(record.baseAddress!, record.count) }
            return try DeviceKeyRecord.decode(UnsafeRawBufferPointer(record))
        }
    }

    private func createDeviceKey() throws -> SecretKey {
        let key = try SecretKey.random()
        var record = DeviceKeyRecord.encoded(key)
        defer { sodium_memzero(&record, record.count) }
        try storage.replace(Self.deviceKeyRecord, record)
        return key
    }

    private func read<Result>(
        _ record: RecordName,
        maximum: Int,
        _ decode: (UnsafeMutableRawBufferPointer) throws -> Result
    ) throws -> Result? {
        var result: Result?
        try faults(of: record) {
            _ = try storage.read(record, upTo: maximum, maximum: maximum) { result = try decode($0) }
        }
        return result
    }

    // MARK: What must not be taken for a new store

    /// A store with items whose keybag is lost is no new one, nor are its items absent.
    private func hasItems() throws -> Bool {
        try storage.scopes().contains(where: Keyring.isScopeNameOfAnyStore)
    }

    /// Under another store's keybag, put there with its device key, every item would seem to be absent.
    private func checkItems(belongTo keyring: Keyring) throws {
        let scopes = try storage.scopes().filter(Keyring.isScopeNameOfAnyStore)
        if !scopes.isEmpty, !scopes.contains(where: keyring.isScopeName) { throw keybagIsForeign }
    }

    private var keybagIsMissing: LockboxError {
        .corrupt(record: storage.location(of: Self.keybagRecord), reason: "it is missing")
    }

    private var keybagIsForeign: LockboxError {
        .authenticationFailed(record: storage.location(of: Self.keybagRecord))
    }

    private func faults<Result>(of record: RecordName, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch RecordFault.wrongDeviceKey {
            if case .given(let name, _) = source { throw LockboxError.deviceKeyMismatch(path: name) }
            throw LockboxError.deviceKeyMismatch(path: storage.location(of: Self.deviceKeyRecord))
        } catch let fault as RecordFault {
            throw fault.error(storage.location(of: record))
        }
    }
}

/// The keybag, as it was read, and what of it is open.
private struct OpenedKeybag {
    let keybag: Keybag
    let keyring: Keyring
    /// While unlocked: opens the keys that a rotation by another process adds.
    let passcodeKey: SecretKey?
    let revision: RecordRevision
}

extension KeyRole {
    fileprivate var isWipedByLock: Bool {
        switch self {
        case .classKey(.whenUnlocked), .classKey(.whenUnlockedThisDeviceOnly),
            .classKey(.whenPasscodeSetThisDeviceOnly):
            true
        default: false
        }
    }

    /// The key of `whenPasscodeSetThisDeviceOnly` is another one for each passcode that is set after none.
    fileprivate var survivesChangeOfPasscode: Bool { self != .classKey(.whenPasscodeSetThisDeviceOnly) }
}

extension RecordFault {
    /// The error for callers, with the record's name.
    func error(_ record: String) -> LockboxError {
        switch self {
        case .malformed(let reason): .corrupt(record: record, reason: reason)
        case .notAuthentic: .authenticationFailed(record: record)
        case .wrongDeviceKey: .deviceKeyMismatch(path: record)
        case .unsupportedVersion(let version): .unsupportedVersion(record: record, version: version)
        case .unknownKey: .corrupt(record: record, reason: "the keybag does not hold the key that seals it")
        case .locked(let accessibility): .interactionNotAllowed(accessibility)
        }
    }
}
