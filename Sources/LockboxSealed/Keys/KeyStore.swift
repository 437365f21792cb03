import LockboxCore
import LockboxPlatform
import LockboxSodium

/// A store's keys: reads the keybag, makes it for a new store, rewrites it, and knows which keys are open.
///
/// Locks are taken in this order: a scope's lock of the storage; ``changes``; the storage's lock of the root.
final class KeyStore<Storage: RecordStorage>: Sendable {
    let storage: Storage
    private let source: DeviceKey.Source
    let userUnlock: UserUnlock
    let opened = Protected<OpenedKeybag?>(nil)
    /// ``opened`` with what the user has unlocked for every process.
    let shared = Protected<SharedKeybag?>(nil)
    /// What the kernel has that opens nothing more than this keyring does. Such a record never will: both stay what they are.
    private let worthless = Protected<(found: [UserUnlock.Found], own: Keyring)?>(nil)
    /// Held while ``opened`` is replaced, so that a keybag being read does not undo a `lock()`.
    let changes = Lock(isRecursive: true)
    /// How often Argon2id has run for this store, for tests.
    let derivations = Protected(0)

    init(storage: Storage, deviceKey: DeviceKey, kernel: KernelKeyring) {
        self.storage = storage
        source = deviceKey.source
        userUnlock = UserUnlock(kernel: kernel)
    }

    /// The store's keys; nil if there is no store and none is to be made.
    func keyring(creating: Bool) throws -> Keyring? {
        if let opened = opened.withLock({ $0 }) { return try withUserUnlock(opened).keyring }
        if let opened = try load() { return try withUserUnlock(opened).keyring }
        if try hasItems() {
            // The keybag comes before the first item: another process may just have made both.
            if let opened = try load() { return try withUserUnlock(opened).keyring }
            throw keybagIsMissing
        }
        return creating ? try create().keyring : nil
    }

    /// The keys as they are in the store now.
    ///
    /// - Parameter creating: whether a store is to be made if there is none; otherwise that is an error.
    func currentKeyring(creating: Bool = false) throws -> Keyring {
        if creating { _ = try keyring(creating: true) }
        return try withUserUnlock(own()).keyring
    }

    var isLockedIntoMemory: Bool {
        let keyrings = [opened.withLock { $0?.keyring }, shared.withLock { $0?.opened.keyring }]
        return keyrings.allSatisfy { $0?.isLockedIntoMemory ?? true }
    }

    /// Throws if the store has gone, or another one is in its place.
    func checkIsThere() throws { _ = try own() }

    /// Every run of Argon2id goes through here.
    func derive<Result>(
        _ passcode: Passcode,
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result {
        derivations.withLock { $0 += 1 }
        return try passcode.withBytes(body)
    }

    // MARK: The records

    static var keybagRecord: RecordName { RecordName(name: "keybag") }
    private static var deviceKeyRecord: RecordName { RecordName(name: "device-key") }

    private func keybagRevision() throws -> RecordRevision? {
        try storage.revision(of: Self.keybagRecord, maximum: Keybag.maximumLength)
    }

    func current() throws -> OpenedKeybag { try withUserUnlock(own()) }

    /// As ``keyring(creating:)``, with keybag and device key read and checked anew, whatever is open already.
    func checkedKeyring() throws -> Keyring? {
        guard try keyring(creating: false) != nil else { return nil }
        guard let opened = try load() else { throw keybagIsMissing }
        return try withUserUnlock(opened).keyring
    }

    /// What of the keybag, as it is in the store now, this process has opened itself.
    func own() throws -> OpenedKeybag {
        let revision = try keybagRevision()
        if let opened = opened.withLock({ $0 }), opened.revision == revision { return opened }
        guard let opened = try load() else { throw keybagIsMissing }
        return opened
    }

    /// Reads the keybag. What this process had open stays open, also if the passcode has changed; what it could not
    /// open then, it opens if `passcodeKey`, or the one it has, fits.
    ///
    /// - Parameter block: Whose the key is, where another process may have changed the passcode meanwhile.
    func load(passcodeKey: SecretKey? = nil, of block: PasscodeBlock? = nil) throws -> OpenedKeybag? {
        try changes.withLock {
            // Taken first: if the keybag changes in between, it is only read once more.
            guard let revision = try keybagRevision() else { return nil }
            let device = try deviceKey()
            let keybag = try read(Self.keybagRecord, maximum: Keybag.maximumLength) { record in
                try Keybag(UnsafeRawBufferPointer(record), deviceKey: device)
            }
            guard let keybag else { throw keybagIsMissing }
            let before = opened.withLock { $0 }
            if let before, before.keybag.storeID != keybag.storeID { throw storeIsReplaced }
            let passcodeKey = block == nil || block == keybag.passcode ? passcodeKey : nil
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

    /// With the keys that the user has unlocked for every process, if not all are open anyway. Waits for nobody.
    func withUserUnlock(_ own: OpenedKeybag) throws -> OpenedKeybag {
        if own.keyring.isComplete { return own }
        var seen: [UserUnlock.Found] = []
        while true {
            var (found, opened): ([UserUnlock.Found], OpenedKeybag?) = ([], nil)
            for record in userUnlock.find(for: own.keyring) {
                found.append(record)
                opened = try open(record, own)
                if opened != nil { break }
            }
            // Who rewrites the keybag puts other records there: what opens most may have been missed while they changed.
            if let opened, found.count == 1 || opened.keyring.isComplete { return opened }
            if found == seen {
                if opened == nil { shared.withLock { $0 = nil } }
                return opened ?? own
            }
            seen = found
        }
    }

    /// Nil if the record opens nothing.
    private func open(_ found: UserUnlock.Found, _ own: OpenedKeybag) throws -> OpenedKeybag? {
        if isWorthless(found, own.keyring) { return nil }
        if let shared = shared.withLock({ $0 }), shared.found == found, shared.own === own.keyring {
            return shared.opened
        }
        // What is new in the kernel may go with a new keybag.
        let own = try self.own()
        switch try faults(of: Self.keybagRecord, { try userUnlock.open(own, found, device: deviceKey()) }) {
        case .opened(let opened):
            shared.withLock { $0 = SharedKeybag(found: found, own: own.keyring, opened: opened) }
            return opened
        case .worthless:
            worthless.withLock { worthless in
                let known = worthless.flatMap { $0.own === own.keyring ? $0.found : nil } ?? []
                worthless = (known + [found], own.keyring)
            }
            return nil
        case .unread: return nil
        }
    }

    private func isWorthless(_ found: UserUnlock.Found, _ own: Keyring) -> Bool {
        worthless.withLock { $0.map { $0.own === own && $0.found.contains(found) } ?? false }
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

    func write(_ keybag: Keybag, _ device: SecretKey) throws {
        try storage.replace(Self.keybagRecord, keybag.encoded(deviceKey: device))
    }

    func deviceKey() throws -> SecretKey {
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
            defer { Sodium.wipe(record) }
            return try DeviceKeyRecord.decode(UnsafeRawBufferPointer(record))
        }
    }

    private func createDeviceKey() throws -> SecretKey {
        let key = try SecretKey.random()
        var record = DeviceKeyRecord.encoded(key)
        defer { Sodium.wipe(&record) }
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

    private var storeIsReplaced: LockboxError {
        .storageFailure(operation: "stat", path: storage.location(of: Self.keybagRecord), errno: ESTALE)
    }

    func faults<Result>(of record: RecordName, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch RecordFault.wrongDeviceKey {
            if case .given(let name, _) = source { throw LockboxError.deviceKeyMismatch(path: name) }
            throw LockboxError.deviceKeyMismatch(path: storage.location(of: Self.deviceKeyRecord))
        } catch let fault as RecordFault {
            throw fault.error(storage.location(of: record))
        }
    }
}

extension KeyRole {
    /// The key of `whenPasscodeSetThisDeviceOnly` is another one for each passcode that is set after none.
    fileprivate var survivesChangeOfPasscode: Bool { self != .classKey(.whenPasscodeSetThisDeviceOnly) }
}
