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
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
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
    /// Whoever has only the device key cannot put others in their place in a store with a passcode. Those that were stored before
    /// it had one stay: look at them when you set a passcode.
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
    /// It calls ``rotateKeys(newDeviceKey:progress:)``: otherwise whoever has kept an earlier record could put it back. After an error,
    /// call it again.
    ///
    /// - Parameter recipients: Public keys of age, which begin with `age1`. None removes those that are stored.
    /// - Throws: ``LockboxError/invalidPasscode(reason:)`` if one is not a key of X25519;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    public func setBackupRecipients(_ recipients: [String]) throws {
        let key = try Self.recipientsKey()
        // A locked store is found out before anything is changed. Any other record is replaced.
        do { _ = try backupRecipients() } catch let error as LockboxError
            where error.code != .interactionNotAllowed
        {}
        if recipients.isEmpty {
            try remove(key)
        } else {
            _ = try BackupRecipients.publicKeys(recipients).keys()
            let value = try ArchivedValue(data: JSONEncoder().encode(recipients), format: .json)
            try write(StoredItem(key: key, value: value, modified: Date()), policy: .replace)
        }
        // Whatever was there: somebody may have taken the record away, and an earlier call may have been interrupted.
        try rotateKeys()
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
        let found = try path == "-" ? nil : BackupFile.replaceable(path, calls)
        let identities = recipients.compactMap(\.identity)
        var earlier = try replacing ? nil : found.map { _ in try EarlierBackup(path, identities, calls) }
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
        if found != nil, report.exportedCount == 0 {
            throw LockboxError.unsafePermissions(
                path: path,
                reason:
                    "it is a backup, and the new one would be empty; remove it first, or choose another file"
            )
        }
        if path == "-" { return report }
        try BackupFile.alone(at: path, calls) {
            // Another one may have come since, of which nobody knows what it has.
            let now = try BackupFile.replaceable(path, calls)
            if !replacing, now != found { earlier = try now.map { _ in try EarlierBackup(path, [], calls) } }
            report.keptBackup = try earlier?.keepIfNeeded()
            try writer.finish()
        }
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
}

/// Those who can decrypt a backup.
public enum BackupRecipients: Sendable {
    /// Whoever knows the passphrase: 1 to 1,024 bytes. Whoever has the file can keep guessing it.
    ///
    /// A guess, and the export too, costs scrypt with N = 2^workFactor, r = 8, p = 1, in 2^workFactor KiB of memory: 1 to 22, which
    /// is the most that age accepts. Its own default is 18.
    case passphrase(PasscodeSource, workFactor: Int = 18)

    /// Whoever has the private key of one of these public keys of age, which begin with `age1`: 1 to 10,000. The export needs no
    /// secret then.
    case publicKeys([String])

    /// A header of 1 MB, which every reader takes.
    private static let maximumCount = 10_000

    func keys() throws -> [AgeRecipient] {
        switch self {
        case .passphrase(let passphrase, let workFactor):
            return try passphrase.withBytes { [.passphrase(WipedBytes($0), workFactor: workFactor)] }
        case .publicKeys(let keys):
            guard (1...Self.maximumCount).contains(keys.count) else {
                throw LockboxError.invalidPasscode(
                    reason:
                        "a backup needs 1 to \(Self.maximumCount) public keys, and there are \(keys.count)"
                )
            }
            return try keys.map { key in try AgeError.mapped("") { .x25519(try AgePublicKey(key)) } }
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
