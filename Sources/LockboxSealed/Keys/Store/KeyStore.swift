import LockboxCore
import LockboxPlatform
import LockboxSodium

/// A store's keys. Decides which of them are open. There are three states:
///
/// 1. nothing has been read yet (``opened`` is nil);
/// 2. the keybag has been read, with the keys that this process has unlocked itself (``opened``);
/// 3. in addition, the keys that the user has unlocked for every process, which are in the kernel
///    (``userRecords``).
///
/// If another process replaces the keybag, it is read again when an item needs it, when a commit finds another
/// revision than expected, and when the keys are changed.
final class KeyStore<Storage: RecordStorage>: Sendable {
    let storage: Storage
    let device: StoredDeviceKey<Storage>
    let userUnlock: UserUnlock
    let opened = Protected<OpenedKeybag?>(nil)
    let userRecords = Protected<UserRecords?>(nil)
    /// Held while ``opened`` is replaced, so that a read of the keybag cannot undo a `lock()`. Lock order:
    /// after a namespace's turn, before the keybag's turn.
    let changes = Lock(isRecursive: true)
    /// Counts the runs of Argon2id, for tests.
    let derivations = Protected(0)

    init(storage: Storage, deviceKey: DeviceKeySource, kernel: KernelKeyring) {
        self.storage = storage
        device = StoredDeviceKey(storage: storage, source: deviceKey.source)
        userUnlock = UserUnlock(kernel: kernel)
    }

    // MARK: The keys

    /// Returns the store's keys, or nil if there is no store and `creating` is false.
    func keyring(creating: Bool) throws -> Keyring? {
        if let opened = opened.withLock({ $0 }) { return try withUserUnlock(opened).keyring }
        if let opened = try loadIfMade() { return try withUserUnlock(opened).keyring }
        return creating ? try create().keyring : nil
    }

    /// Returns the store's keys according to its current keybag.
    ///
    /// - Parameter creating: Whether to create a store if there is none. If false, that is an error.
    func currentKeyring(creating: Bool = false) throws -> Keyring {
        if creating { _ = try keyring(creating: true) }
        return try current().keyring
    }

    func current() throws -> OpenedKeybag { try withUserUnlock(own()) }

    /// Like ``keyring(creating:)``, but always reads and checks the keybag and the device key again.
    func checkedKeyring() throws -> Keyring? {
        guard try keyring(creating: false) != nil else { return nil }
        guard let opened = try load() else { throw keybagIsMissing }
        return try withUserUnlock(opened).keyring
    }

    /// Throws if the store is gone or has been replaced by another one.
    func checkIsThere() throws { _ = try own() }

    /// Returns the current keybag with the keys that this process has unlocked itself.
    func own() throws -> OpenedKeybag {
        let revision = try keybagRevision()
        if let opened = opened.withLock({ $0 }), opened.keyring.revision == revision { return opened }
        guard let opened = try load() else { throw keybagIsMissing }
        return opened
    }

    var isLockedIntoMemory: Bool {
        let keyrings =
            [opened.withLock { $0?.keyring }]
            + (userRecords.withLock { $0 }?.outcomes.map { $0.opened?.keyring } ?? [])
        return keyrings.allSatisfy { $0?.isLockedIntoMemory ?? true }
    }

    /// Runs Argon2id. Every run goes through here.
    func derive<Result>(
        _ passcode: PasscodeSource,
        _ body: (UnsafeRawBufferPointer) throws -> Result
    ) throws -> Result {
        derivations.withLock { $0 += 1 }
        return try passcode.withBytes(body)
    }

    // MARK: The keybag

    static var keybagRecord: RecordName { RecordName(name: "keybag") }

    private func keybagRevision() throws -> RecordRevision {
        try storage.revision(of: Self.keybagRecord, maximum: Keybag.maximumLength)
    }

    /// Reads the keybag. Keys that are open in this process stay open, even if the passcode has changed. Locked
    /// ones are opened if `passcodeKey`, or the one already in memory, fits.
    ///
    /// - Parameter block: The passcode that `passcodeKey` belongs to, if another process may have changed it
    ///   meanwhile.
    func load(passcodeKey: SecretKey? = nil, of block: PasscodeBlock? = nil) throws -> OpenedKeybag? {
        try changes.withLock {
            guard let (keybag, revision, device) = try readKeybag() else { return nil }
            let before = opened.withLock { $0 }
            if let before, before.keybag.storeID != keybag.storeID { throw storeIsReplaced }
            let given = block == nil || block == keybag.passcode ? passcodeKey : nil
            let known = before?.keybag.passcode == keybag.passcode ? before?.passcodeKey : nil
            let wrapping = WrappingKeys(device: device, passcode: given ?? known)
            let opened = try faults(of: Self.keybagRecord) {
                var keys = try keybag.unwrap(with: wrapping)
                let locked = Set(keybag.entries.map(\.slot)).subtracting(keys.map(\.slot))
                let kept = before?.keyring.keys(where: \.survivesChangeOfPasscode) ?? []
                keys += kept.filter { locked.contains($0.slot) }
                return try OpenedKeybag(keybag, keys, passcodeKey: wrapping.passcode, revision: revision)
            }
            try checkItems(belongTo: opened.keyring)
            self.opened.withLock { $0 = opened }
            return opened
        }
    }

    private func readKeybag() throws -> (Keybag, RecordRevision, SecretKey)? {
        if try keybagRevision() == .absent { return nil }
        let device = try device.read()
        var found: (Keybag, RecordRevision, SecretKey)?
        let length = Keybag.maximumLength
        try faults(of: Self.keybagRecord) {
            _ = try storage.read(Self.keybagRecord, upTo: length, maximum: length) {
                let keybag = try Keybag(UnsafeRawBufferPointer($0.bytes), deviceKey: device)
                found = (keybag, $0.revision, device)
            }
        }
        guard let found else { throw keybagIsMissing }
        return found
    }

    /// Creates a new store's keys, unless another process creates them first.
    private func create() throws -> OpenedKeybag {
        try changes.withLock {
            let turn = try storage.takeTurn(in: nil)
            defer { turn?.release() }
            if let opened = try loadIfMade() { return opened }
            let device = try device.readOrCreate(turn)
            let record = Self.keybagRecord
            let keybag = try Keybag.create(deviceKey: device).encoded(deviceKey: device)
            let outcome = try storage.commit([.put(record, keybag)], expecting: [record: .absent], turn: turn)
            if case .unknown(let error) = outcome { throw error }
            guard let opened = try load() else { throw keybagIsMissing }
            return opened
        }
    }

    // MARK: Damaged and replaced stores

    /// Reads the keybag; returns nil if there is no store.
    private func loadIfMade() throws -> OpenedKeybag? {
        if let opened = try load() { return opened }
        guard try hasItems() else { return nil }
        // The keybag is written before the first item: another process may have just created both.
        if let opened = try load() { return opened }
        throw keybagIsMissing
    }

    /// A store with items but without a keybag is damaged, not new.
    private func hasItems() throws -> Bool {
        try storage.namespaces().contains(where: Keyring.isNamespaceOfAnyStore)
    }

    /// If the keybag and the device key were replaced by another store's, every item would seem to be absent.
    private func checkItems(belongTo keyring: Keyring) throws {
        let namespaces = try storage.namespaces().filter(Keyring.isNamespaceOfAnyStore)
        if !namespaces.isEmpty, !namespaces.contains(where: keyring.owns) {
            throw LockboxError.authenticationFailed(record: storage.location(of: Self.keybagRecord))
        }
    }

    private var keybagIsMissing: LockboxError {
        .missing(record: storage.location(of: Self.keybagRecord))
    }

    private var storeIsReplaced: LockboxError {
        .storageFailure(operation: "stat", path: storage.location(of: Self.keybagRecord), errno: ESTALE)
    }

    func faults<Result>(of record: RecordName, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch RecordError.wrongDeviceKey {
            throw LockboxError.deviceKeyMismatch(path: device.location)
        } catch let fault as RecordError {
            throw fault.error(storage.location(of: record))
        }
    }
}

extension KeyRole {
    /// Whether the key stays the same when the passcode changes. The key of `whenPasscodeSetThisDeviceOnly`
    /// does not outlive its passcode: setting one where there is none creates a new key.
    fileprivate var survivesChangeOfPasscode: Bool { self != .classKey(.whenPasscodeSetThisDeviceOnly) }
}
