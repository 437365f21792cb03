import LockboxAge
public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// Writes all items that may leave this device to an encrypted file.
    ///
    /// The file has the format of age: `age -d FILE` decrypts it to JSON in lines, so no secret depends on Lockbox. See
    /// <doc:OnDiskFormat>. It can be imported into any store: it contains and needs none of this store's keys.
    ///
    /// Items of the `ThisDeviceOnly` classes and of `whenPasscodeSetThisDeviceOnly` are left out and listed in
    /// the report, and so are items that cannot be read. Expired items are included. The file (mode 0600) appears
    /// only when it is complete, and replaces an earlier backup of that name. An earlier one that has an item which the new one
    /// lacks, or has it newer, stays beside it under another name, and so does one that cannot be read: with another passphrase, or
    /// encrypted to public keys. Items that have expired do not count.
    ///
    /// - Parameters:
    ///   - path: The file to write. An existing file is replaced only if it is a backup or empty. `-` is standard output.
    ///   - recipients: Who can decrypt it.
    ///   - prefix: The key prefix whose items are exported. If `nil`, all items are.
    ///   - replacing: Whether an earlier backup is replaced whatever it has. It is then not read.
    ///   - progress: Called after each item.
    /// - Returns: The number of exported items, the items that were left out, and those that cannot be read; and where the
    ///   earlier backup is, if it stays.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item is locked;
    ///   ``LockboxError/invalidPasscode(reason:)``; ``LockboxError/notEnoughMemory(bytes:)``;
    ///   ``LockboxError/notABackup(path:)`` if there is another file at the path;
    ///   ``LockboxError/unsafePermissions(path:reason:)`` if there is something at the path that is not a file,
    ///   or a backup that would be replaced by an empty one. Nothing is then written.
    @discardableResult
    public func exportBackup(
        to path: String,
        for recipients: BackupRecipients,
        prefix: String? = nil,
        replacing: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ExportReport {
        try export(to: path, for: recipients.keys(), prefix, replacing, SystemCalls(), progress)
    }

    /// The public keys that this store is backed up to, as ``setBackupRecipients(_:)`` has stored them. Empty if there are none.
    ///
    /// Whoever has only the device key cannot put others in their place in a store with a passcode.
    ///
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the store is locked;
    ///   ``LockboxError/requirementNotMet(record:reason:)`` if somebody has replaced them;
    ///   ``LockboxError/authenticationFailed(record:)`` if they were changed.
    public func backupRecipients() throws -> [String] {
        guard let item = try item(for: Self.recipientsKey(), now: nil) else { return [] }
        guard item.attributes.accessibility == .whenUnlocked else {
            throw LockboxError.requirementNotMet(
                record: "the public keys for backups",
                reason: "their class is \(item.attributes.accessibility), which needs no unlock"
            )
        }
        do { return try JSONDecoder().decode([String].self, from: item.value.data) } catch {
            throw LockboxError.corrupt(record: "the public keys for backups", reason: "it is not well-formed")
        }
    }

    /// Stores the public keys that this store is backed up to, for every program that makes its backups.
    ///
    /// - Parameter recipients: Public keys of age, which begin with `age1`. None removes those that are stored.
    /// - Throws: ``LockboxError/invalidPasscode(reason:)`` if one is not a key of X25519;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    public func setBackupRecipients(_ recipients: [String]) throws {
        let key = try Self.recipientsKey()
        if recipients.isEmpty { return try remove(key) }
        _ = try BackupRecipients.publicKeys(recipients).keys()
        let value = try ArchivedValue(data: JSONEncoder().encode(recipients), format: .json)
        try write(StoredItem(key: key, value: value, modified: Date()), policy: .replace)
    }

    private static func recipientsKey() throws -> ItemKey {
        try ItemKey(storedPrefix: "\0backup", key: "recipients")
    }

    func export(
        to path: String,
        for recipients: [AgeRecipient],
        _ prefix: String?,
        _ replacing: Bool,
        _ calls: SystemCalls,
        _ progress: (StoreProgress) -> Void
    ) throws -> ExportReport {
        let isReplacing = try path != "-" && BackupFile.isReplaceable(path, calls)
        var earlier =
            try isReplacing && !replacing
            ? EarlierBackup(path, recipients.compactMap(\.identity), calls) : nil
        var backup = try BackupEncryptor(recipients, path)
        var writer = try path == "-" ? AtomicFile(standardOutput: calls) : AtomicFile(path, calls)
        let keyring = try keyStore.keyring(creating: false)
        try writer.write(backup.begin(keyring?.storeID, Date()))
        var report = ExportReport()
        let namespaces = try keyring.map { try itemsToExport($0, prefix, report: &report) } ?? []
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (number, record) in namespaces.joined().enumerated() {
            try exportItem(record, &report) { item in
                try writer.write(backup.encrypt(item))
                earlier?.isFollowed(by: item)
            }
            progress(StoreProgress(completed: number + 1, total: total))
        }
        try writer.write(backup.finish())
        if isReplacing, report.exportedCount == 0 {
            throw LockboxError.unsafePermissions(
                path: path,
                reason:
                    "it is a backup, and the new one would be empty; remove it first, or choose another file"
            )
        }
        report.keptBackup = try earlier?.keepIfNeeded()
        try writer.finish()
        return report
    }

    /// Skips a prefix that cannot be listed, unless it is the only one to be exported.
    private func itemsToExport(_ keyring: Keyring, _ prefix: String?, report: inout ExportReport) throws
        -> [ItemRecords]
    {
        let namespaces = try storage.namespaces()
        if let prefix {
            let chosen = keyring.namespace(ofPrefix: prefix)
            return try namespaces.filter { $0 == chosen }.map { try items(in: $0) }
        }
        return try namespaces.filter(keyring.owns).compactMap { namespace in
            try skippingIfUnusable(namespace, unreadable: { report.findings.append($0.finding) }) {
                try items(in: namespace)
            }
        }
    }

    private func exportItem(
        _ record: ItemRecord,
        _ report: inout ExportReport,
        _ write: (StoredItem) throws -> Void
    ) throws {
        let keyring = try keyStore.currentKeyring()
        // Nil if the item was removed meanwhile, or cannot be read.
        let metadata = try readableMetadata(record, keyring) { report.findings.append($0.finding) }
        guard let metadata else { return }
        if ItemKey.isReserved(prefix: metadata.key.prefix) { return }
        if metadata.attributes.accessibility.isThisDeviceOnly {
            return report.excludedKeys.append(metadata.key)
        }
        let found: StoredItem?
        do { found = try item(for: metadata.key, now: nil) } catch let error as LockboxError {
            return report.findings.append(try unreadableItem(record, key: metadata.key, error: error).finding)
        }
        guard let item = found else { return }
        // The item may have been moved to another class meanwhile.
        if item.attributes.accessibility.isThisDeviceOnly { return report.excludedKeys.append(item.key) }
        try write(item)
        report.exportedCount += 1
    }

    /// Imports a backup into this store.
    ///
    /// Before it writes anything, it authenticates the whole file and checks that every class in it is open. An
    /// interrupted import can be repeated with any policy: items that are identical in the store and the backup
    /// do not count as existing, and neither do expired ones.
    ///
    /// A damaged item of the store is replaced by the backup's. So is one that cannot be read because of its permissions or
    /// because it is a link or a folder, after it has been set aside as by ``LockboxBackend/quarantine(record:)``. Items
    /// of a newer version, sealed with keys newer than the keybag's, or of a class that this program refuses stay, and the
    /// report names them.
    ///
    /// - Parameters:
    ///   - path: The backup file. `-` is standard input.
    ///   - secret: Decrypts it. Anybody who knows a public key can make a backup for it: know where the file comes from.
    ///   - existing: How to treat a different, unexpired item under the same key in the store. With
    ///     ``ExistingItemPolicy/fail``, a damaged item counts as existing, and so does one that cannot be read, or that
    ///     the backup has twice. An item that is replaced keeps its class, if that is better protected than the backup's.
    ///   - isDryRun: Whether only to report what would be imported.
    ///   - progress: Called after each batch of items.
    /// - Returns: The items that were written, those that were kept, and those that could not be replaced.
    /// - Throws: ``LockboxError/notABackup(path:)``, ``LockboxError/wrongPasscode``,
    ///   ``LockboxError/invalidPasscode(reason:)``, ``LockboxError/notEnoughMemory(bytes:)``,
    ///   ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)``,
    ///   ``LockboxError/interactionNotAllowed(_:)``, also for an item of the store that is locked, or
    ///   ``LockboxError/duplicateItem(key:)``. Nothing has then changed.
    @discardableResult
    public func importBackup(
        from path: String,
        with secret: BackupSecret,
        existing: ExistingItemPolicy = .keep,
        isDryRun: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ImportReport {
        let reader = try BackupReader(path, secret.identities(), SystemCalls())
        var state = Import(policy: existing)
        var total = 0
        let keyring = try keyStore.keyring(creating: false).map { _ in try keyStore.currentKeyring() }
        var found: Set<ItemKey> = []
        try reader.read { item in
            total += 1
            // The second one would find the first one in the store, after it has been written.
            if existing == .fail, !found.insert(item.key).inserted {
                throw LockboxError.duplicateItem(key: item.key.key)
            }
            let accessibility = item.attributes.accessibility
            if let keyring, !keyring.isOpen(accessibility) {
                throw LockboxError.interactionNotAllowed(accessibility)
            }
            // Under every policy, so that a locked item is found before anything is written.
            try checkPlace(of: item, &state)
        }
        var completed = 0
        var batch: [StoredItem] = []
        func importBatch() throws {
            if isDryRun { try preview(batch, &state) } else { try importItems(batch, &state) }
            completed += batch.count
            batch = []
            progress(StoreProgress(completed: completed, total: total))
        }
        try reader.read { item in
            batch.append(item)
            if batch.count == ItemOperation.batch || item.value.data.count > Self.largeValue {
                try importBatch()
            }
        }
        if !batch.isEmpty { try importBatch() }
        // Whoever wrote these items may have been killed before they were durable.
        try state.unchanged.sorted().forEach(storage.synchronize)
        return state.report
    }

    /// An import that has begun.
    private struct Import {
        let policy: ExistingItemPolicy
        let today = Date()
        var report = ImportReport()
        /// The namespaces of the items that the store had already.
        var unchanged: Set<String> = []
        /// Something in the place of an item that cannot be read.
        var unreadable: Set<RecordName> = []
    }

    /// A value of this length or more ends a batch, so that a batch needs little memory.
    private static var largeValue: Int { 1 << 16 }

    /// The store's item under the key of a backup's item.
    private enum InStore {
        /// No item, or an expired one, which may be overwritten.
        case absent
        case same
        /// A different item.
        case other
        /// Bytes that nobody can read any more.
        case damaged
        /// Something that this program cannot read, and that may be whole.
        case unreadable(LockboxError)
    }

    /// - Throws: ``LockboxError`` if the item is locked, or if there must not be one.
    private func checkPlace(of item: StoredItem, _ state: inout Import) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        let record = itemRecord(of: item.key, keyring)
        switch (try place(record, keyring, of: item, at: state.today).state, state.policy) {
        case (.other, .fail), (.damaged, .fail): throw LockboxError.duplicateItem(key: item.key.key)
        case (.unreadable(let error), .fail): throw error
        case (.unreadable, _): state.unreadable.insert(record.name)
        default: break
        }
    }

    private func place(_ record: ItemRecord, _ keyring: Keyring, of new: StoredItem, at today: Date) throws
        -> (state: InStore, revision: RecordRevision)
    {
        do { return try readablePlace(record, keyring, of: new, at: today) } catch let error as LockboxError
            where error.location == storage.location(of: record.name)
        {
            return (.unreadable(error), .absent)
        }
    }

    private func readablePlace(_ record: ItemRecord, _ keyring: Keyring, of new: StoredItem, at today: Date)
        throws -> (state: InStore, revision: RecordRevision)
    {
        let old = try existingItem(record, keyring, at: nil)
        if old.damage != nil { return (.damaged, old.revision) }
        guard let attributes = old.attributes else { return (.absent, old.revision) }
        let isAbsent = attributes.isExpired(at: today)
        if !keyring.isOpen(attributes.accessibility) {
            if isAbsent { return (.absent, old.revision) }
            throw LockboxError.interactionNotAllowed(attributes.accessibility)
        }
        do {
            // The value too: it can be damaged where the attributes are not.
            let (item, revision) = try openItem(record, keyring, at: nil)
            return (item == new ? .same : item == nil || isAbsent ? .absent : .other, revision)
        } catch let error as LockboxError where error.code == .corrupt || error.code == .authenticationFailed
        {
            return (isAbsent ? .absent : .damaged, old.revision)
        }
    }

    /// Anybody who knows a public key can make a backup, so it lowers no class.
    private func keepingClass(of record: ItemRecord, _ keyring: Keyring, in item: StoredItem) throws
        -> StoredItem
    {
        guard let old = try existingItem(record, keyring, at: nil).attributes?.accessibility,
            old.protection > item.attributes.accessibility.protection
        else { return item }
        let changes = ItemChanges(
            options: WriteOptions(accessibility: old),
            modified: item.attributes.modified
        )
        return try changes.item(after: item, for: item.key)
    }

    /// Makes room for the backup's item. The bytes are kept, because they may be whole.
    private func setAside(_ record: ItemRecord, _ keyring: Keyring, for item: StoredItem, at today: Date)
        throws
    {
        guard case .unreadable(let error) = try place(record, keyring, of: item, at: today).state,
            // Not about what is in it.
            [.unsafePermissions, .unreadable].contains(error.code)
        else { return }
        do { _ = try storage.quarantine(record.name, lock: nil) } catch is LockboxError {
            // It is in the way still, and will be named.
        }
    }

    /// The outcome for an item of the backup.
    private enum Imported {
        case added, replaced, unchanged, kept
        case failed(LockboxError)
    }

    private func preview(_ items: [StoredItem], _ state: inout Import) throws {
        let keyring = try keyStore.keyring(creating: false)
        for item in items {
            let found = try keyring.map {
                try place(itemRecord(of: item.key, $0), $0, of: item, at: state.today).state
            }
            switch (found ?? .absent, state.policy) {
            case (.same, _): state.report.unchangedCount += 1
            case (.other, .keep): state.report.keptKeys.append(item.key)
            case (.absent, _): state.report.addedKeys.append(item.key)
            case (.other, _), (.damaged, _), (.unreadable, _): state.report.replacedKeys.append(item.key)
            }
        }
    }

    private func importItems(_ items: [StoredItem], _ state: inout Import) throws {
        guard let keyring = try keyStore.keyring(creating: true) else { return }
        let records = items.map { itemRecord(of: $0.key, keyring) }
        let byName = Dictionary(zip(records.map(\.name), items)) { $1 }
        guard byName.count == items.count else {
            // A commit changes a record once.
            return try items.forEach { try importItems([$0], &state) }
        }
        let (policy, today) = (state.policy, state.today)
        for (record, item) in zip(records, items) where state.unreadable.contains(record.name) {
            try setAside(record, keyring, for: item, at: today)
        }
        var imported: [RecordName: Imported] = [:]
        try changeItems(records, with: keyring) { record, keyring in
            guard let item = byName[record.name] else { return .keep }
            let (old, revision) = try place(record, keyring, of: item, at: today)
            switch (old, policy) {
            case (.same, _): imported[record.name] = .unchanged
            case (.other, .keep): imported[record.name] = .kept
            case (.unreadable(let error), _): imported[record.name] = .failed(error)
            case (.other, .fail), (.damaged, .fail): throw LockboxError.duplicateItem(key: item.key.key)
            case (.other, .replace), (.damaged, _), (.absent, _):
                if case .absent = old {
                    imported[record.name] = .added
                } else {
                    imported[record.name] = .replaced
                }
                let isOther = if case .other = old { true } else { false }
                return .replace(
                    revision,
                    with: isOther ? try keepingClass(of: record, keyring, in: item) : item
                )
            }
            return .keep
        }
        for (record, item) in zip(records, items) {
            switch imported[record.name] {
            case .added: state.report.addedKeys.append(item.key)
            case .replaced: state.report.replacedKeys.append(item.key)
            case .unchanged:
                state.report.unchangedCount += 1
                if let namespace = record.name.namespace { state.unchanged.insert(namespace) }
            case .kept: state.report.keptKeys.append(item.key)
            case .failed(let error):
                state.report.findings.append(try unreadableItem(record, key: item.key, error: error).finding)
            case nil: break
            }
        }
    }
}

/// Those who can decrypt a backup.
public enum BackupRecipients: Sendable {
    /// Whoever knows the passphrase: 1 to 1,024 bytes. Whoever has the file can keep guessing it.
    ///
    /// A guess, and the export too, costs scrypt with N = 2^workFactor, r = 8, p = 1, in 2^workFactor KiB of memory: 1 to 22, which
    /// is the most that age accepts. Its own default is 18.
    case passphrase(PasscodeSource, workFactor: Int = 18)

    /// Whoever has the private key of one of these public keys of age, which begin with `age1`. One at least. The export needs no
    /// secret then.
    case publicKeys([String])

    func keys() throws -> [AgeRecipient] {
        switch self {
        case .passphrase(let passphrase, let workFactor):
            return try passphrase.withBytes { [.passphrase(WipedBytes($0), workFactor: workFactor)] }
        case .publicKeys(let keys):
            if keys.isEmpty { throw LockboxError.invalidPasscode(reason: "a backup needs a public key") }
            return try keys.map { key in try AgeError.mapped("") { .x25519(try AgePublicKey(key)) } }
        }
    }
}

/// The secret that decrypts a backup.
public enum BackupSecret: Sendable {
    /// The passphrase that it was written with, if a guess costs at most so much: the cost is read from the file, which cannot be
    /// authenticated before. See ``BackupRecipients/passphrase(_:workFactor:)``.
    case passphrase(PasscodeSource, maximumWorkFactor: Int = 22)

    /// Private keys of age, one in each line, as `age-keygen` writes them: empty lines and lines that begin with `#` do not count.
    case privateKeys(PasscodeSource)

    func identities() throws -> [AgeIdentity] {
        switch self {
        case .passphrase(let passphrase, let maximum):
            try passphrase.withBytes { [.passphrase(WipedBytes($0), maximumWorkFactor: maximum)] }
        case .privateKeys(let keys):
            try keys.withBytes { bytes in
                let lines = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline)
                return try lines.filter { !$0.hasPrefix("#") }.map { line in
                    try AgeError.mapped("") { .x25519(try AgePrivateKey(line)) }
                }
            }
        }
    }
}

/// A new key for backups: a pair of age's keys.
public struct BackupKey: Sendable {
    /// Decrypts the backups: `AGE-SECRET-KEY-1…`.
    public let privateKey: String
    /// Encrypts them: `age1…`.
    public let publicKey: String

    /// Makes a key.
    public init() {
        let key = AgePrivateKey()
        (privateKey, publicKey) = (key.text, key.publicKey.text)
    }
}

extension BackupKey: Undescribed {
    /// The public key.
    package var summary: String { "BackupKey(\(publicKey))" }
}

/// The result of ``SealedBackend``'s `exportBackup`.
public struct ExportReport: StoreReport, Hashable, Codable {
    /// The number of items in the backup.
    public var exportedCount = 0

    /// The items that are not in the backup because their class is a `ThisDeviceOnly` class.
    public var excludedKeys: [ItemKey] = []

    /// The items that cannot be read, and the folders of prefixes that cannot be listed. They are not in the backup.
    public var findings: [StoreFinding] = []

    /// Where the earlier backup of that name is now, if it stays: it has something that the new one lacks, or cannot be read.
    public var keptBackup: String?
}

/// The result of ``SealedBackend``'s `importBackup`.
public struct ImportReport: StoreReport, Hashable, Codable {
    /// The items that the store did not have.
    public var addedKeys: [ItemKey] = []

    /// The items that have replaced others: different ones with ``ExistingItemPolicy/replace``, and damaged ones.
    public var replacedKeys: [ItemKey] = []

    /// The number of items written.
    public var importedCount: Int { addedKeys.count + replacedKeys.count }

    /// The number of items that were already identical in the store.
    public var unchangedCount = 0

    /// The items that were not imported, because the store keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``).
    public var keptKeys: [ItemKey] = []

    /// The items that were not imported, because the existing item can be neither read nor replaced.
    public var findings: [StoreFinding] = []
}
