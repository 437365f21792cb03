import LockboxCore
import LockboxPlatform
import LockboxSodium

/// A store's keys. What of them is open is decided here, and nowhere else:
///
/// 1. nothing has been read yet (``opened`` is nil);
/// 2. the keybag has been read, with the keys that this process has opened itself (``opened``);
/// 3. besides, the keys that the user has unlocked for every process, which are in the kernel (``userRecords``).
///
/// A keybag that another process has replaced is read again when an item needs it, when the store is not what was expected
/// in a commit, and when the keys themselves are changed.
final class KeyStore<Storage: RecordStorage>: Sendable {
    let storage: Storage
    let device: StoredDeviceKey<Storage>
    let userUnlock: UserUnlock
    let opened = Protected<OpenedKeybag?>(nil)
    let userRecords = Protected<UserRecords?>(nil)
    /// Held while ``opened`` is replaced, so that a keybag being read does not undo a `lock()`. Taken before a turn to commit
    /// the keybag, and after the turn of a namespace.
    let changes = Lock(isRecursive: true)
    /// How often Argon2id has run for this store, for tests.
    let derivations = Protected(0)

    init(storage: Storage, deviceKey: DeviceKeySource, kernel: KernelKeyring) {
        self.storage = storage
        device = StoredDeviceKey(storage: storage, source: deviceKey.source)
        userUnlock = UserUnlock(kernel: kernel)
    }

    // MARK: The keys

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
        return try current().keyring
    }

    func current() throws -> OpenedKeybag { try withUserUnlock(own()) }

    /// As ``keyring(creating:)``, with keybag and device key read and checked anew, whatever is open already.
    func checkedKeyring() throws -> Keyring? {
        guard try keyring(creating: false) != nil else { return nil }
        guard let opened = try load() else { throw keybagIsMissing }
        return try withUserUnlock(opened).keyring
    }

    /// Throws if the store has gone, or another one is in its place.
    func checkIsThere() throws { _ = try own() }

    /// What of the keybag, as it is in the store now, this process has opened itself.
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

    /// Every run of Argon2id goes through here.
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

    /// Reads the keybag. What this process had open stays open, also if the passcode has changed; what it could not
    /// open then, it opens if `passcodeKey`, or the one it has, fits.
    ///
    /// - Parameter block: Whose the key is, where another process may have changed the passcode meanwhile.
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

    /// Makes a new store's keys, unless another process has made them meanwhile.
    private func create() throws -> OpenedKeybag {
        try changes.withLock {
            let turn = try storage.takeTurn(in: nil)
            defer { turn?.release() }
            if let opened = try load() { return opened }
            if try hasItems() { throw keybagIsMissing }
            let device = try device.readOrCreate(turn)
            let record = Self.keybagRecord
            let keybag = try Keybag.create(deviceKey: device).encoded(deviceKey: device)
            let outcome = try storage.commit([.put(record, keybag)], expecting: [record: .absent], turn: turn)
            if case .unknown(let error) = outcome { throw error }
            guard let opened = try load() else { throw keybagIsMissing }
            return opened
        }
    }

    // MARK: What must not be taken for a new store

    /// A store with items whose keybag is lost is no new one, nor are its items absent.
    private func hasItems() throws -> Bool {
        try storage.namespaces().contains(where: Keyring.isNamespaceOfAnyStore)
    }

    /// Under another store's keybag, put there with its device key, every item would seem to be absent.
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
    /// The key of `whenPasscodeSetThisDeviceOnly` is another one for each passcode that is set after none.
    fileprivate var survivesChangeOfPasscode: Bool { self != .classKey(.whenPasscodeSetThisDeviceOnly) }
}
