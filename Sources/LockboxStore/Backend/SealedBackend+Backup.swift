import LockboxAge
public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// Writes all items that may leave this device to an encrypted file.
    ///
    /// The file has the format of age: `age -d FILE` decrypts it to JSON in lines, so no secret depends on Lockbox. See
    /// <doc:OnDiskFormat>. It can be imported into any store: it contains and needs none of this store's keys.
    ///
    /// A backup is of one moment: if an item was changed, moved or removed before all were read, it is begun anew. If that goes on,
    /// other writers wait for it, unless it takes longer than ten seconds, the storage has no locks, or this process may only read.
    /// After the tenth attempt it is of several moments, and the report says so: an item that was moved meanwhile may be missing.
    ///
    /// Items of the `ThisDeviceOnly` classes and of `whenPasscodeSetThisDeviceOnly` are left out and listed in
    /// the report, and so are items that cannot be read. Expired items are included. The file (mode 0600) appears
    /// only when it is complete. An earlier backup of that name stays as `FILE~`, in place of the one before. One that lacks
    /// items because they cannot be read does not replace it: it is written to `FILE.incomplete` then.
    ///
    /// - Parameters:
    ///   - path: The file to write. An existing file must be a backup or empty. `-` is standard output, which gets the backup when
    ///     it is complete; until then it is in the folder for temporary files.
    ///   - recipients: Those who can decrypt it.
    ///   - prefix: The key prefix whose items are exported. If `nil`, all items are.
    ///   - allowsEmpty: Whether a backup may have no item, which otherwise is an error.
    ///   - progress: Called after each item, anew in each attempt that does not keep others waiting.
    /// - Returns: The number of exported items, the items that were left out, and those that cannot be read; and where the
    ///   backup is, and the earlier one.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item is locked;
    ///   ``LockboxError/invalidPasscode(reason:)``; ``LockboxError/notEnoughMemory(bytes:)``;
    ///   ``LockboxError/notABackup(path:)`` if there is another file at the path, or at the one for the earlier backup;
    ///   ``LockboxError/unsafePermissions(path:reason:)`` if there is something at the path that is not a file;
    ///   ``LockboxError/storeNotFound(location:)``; ``LockboxError/emptyBackup(path:)``. Nothing is then written.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func exportBackup(
        to path: String,
        for recipients: BackupRecipients,
        prefix: String? = nil,
        allowsEmpty: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ExportReport {
        try export(
            to: path,
            for: recipients.keys(),
            prefix,
            SystemCalls(),
            allowsEmpty: allowsEmpty,
            progress
        )
    }

    func export(
        to path: String,
        for recipients: [AgeRecipient],
        _ prefix: String?,
        _ calls: SystemCalls,
        allowsEmpty: Bool = false,
        _ progress: (StoreProgress) -> Void
    ) throws -> ExportReport {
        let place = try path == "-" ? nil : BackupFile(path, calls)
        _ = try place?.isThere()
        let age = try AgeError.mapped(path) { try AgeEncryptor(to: recipients) }
        var (attempt, duration) = (0, Duration.zero)
        while true {
            attempt += 1
            var file = try path == "-" ? AtomicFile(standardOutput: calls) : AtomicFile(path, calls)
            var report = ExportReport()
            let begin = world.uptime
            let lock = attempt > Self.attempts.unlocked && duration < .seconds(10) ? lock(of: prefix) : nil
            let isOfOneMoment = try write(age.anew(), to: file, prefix, &report) {
                // It could write to the store, and wait for itself.
                if lock == nil { progress($0) }
            }
            lock?.release()
            duration = world.uptime - begin
            if !isOfOneMoment {
                if attempt < Self.attempts.all { continue }
                report.findings.append(.changing(storage.location(of: .keybag)))
            }
            if report.exportedCount == 0, report.isComplete, !allowsEmpty {
                throw LockboxError.emptyBackup(path: path)
            }
            guard let place else {
                try file.finish()
                return report
            }
            (report.path, report.keptBackup) = try place.replace(with: &file, isComplete: report.isComplete)
            return report
        }
    }

    /// How often an export is begun, and how often of these others need not wait for it.
    private static var attempts: (all: Int, unlocked: Int) { (10, 3) }

    /// Keeps others from changing items. Nil if that is not possible, for whatever reason: it may still be read.
    private func lock(of prefix: String?) -> (any StorageLock)? {
        guard let keyring = try? keyStore.keyring(creating: false) else { return nil }
        return try? storage.lockIfSupported(Set(namespacesToExport(keyring, prefix)))
    }

    /// Returns whether at the end all items are still as they were read.
    private func write(
        _ age: AgeEncryptor,
        to file: borrowing AtomicFile,
        _ prefix: String?,
        _ report: inout ExportReport,
        _ progress: (StoreProgress) -> Void
    ) throws -> Bool {
        var backup = BackupEncryptor(age)
        guard let keyring = try keyStore.keyring(creating: false) else { throw keyStore.storeIsNotFound }
        let begin = moments(keyring, prefix)
        try file.write(backup.begin(keyring.storeID, world.date))
        var read = RecordStates()
        let namespaces = try itemsToExport(keyring, prefix, &read, &report)
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (number, record) in namespaces.joined().enumerated() {
            if let item = try itemToExport(record, &read, &report) { try file.write(backup.encrypt(item)) }
            progress(StoreProgress(completed: number + 1, total: total))
        }
        try file.write(backup.finish())
        return try isUnchanged(since: begin, read, keyring, prefix)
    }

    /// Whether all items are still as they were read. If no file has come into the folders, a list of the names shows it: an item that
    /// is removed and stored again is a new file. Otherwise each record is looked at again.
    private func isUnchanged(
        since begin: [String: FolderMoment]?,
        _ read: RecordStates,
        _ keyring: Keyring,
        _ prefix: String?
    ) throws -> Bool {
        if let begin {
            let names = try recordStates(keyring, prefix) { _ in nil }
            if names.hasSameNames(as: read), moments(keyring, prefix) == begin { return true }
        }
        return try recordStates(keyring, prefix, revision(of:)) == read
    }

    /// The moments of the folders. Nil if there are none, or if one cannot be told.
    private func moments(_ keyring: Keyring, _ prefix: String?) -> [String: FolderMoment]? {
        guard let files = storage.asFiles else { return nil }
        do {
            var moments: [String: FolderMoment] = [:]
            for namespace in try namespacesToExport(keyring, prefix) {
                guard let moment = try files.moment(of: namespace) else { return nil }
                moments[namespace] = moment
            }
            return moments
        } catch { return nil }
    }

    private func namespacesToExport(_ keyring: Keyring, _ prefix: String?) throws -> [String] {
        let chosen = prefix.map(keyring.namespace(ofPrefix:))
        return try storage.namespaces().filter {
            chosen == nil ? keyring.owns(namespace: $0) : $0 == chosen
        }
    }

    /// Skips a prefix that cannot be listed, unless it is the only one to be exported.
    private func itemsToExport(
        _ keyring: Keyring,
        _ prefix: String?,
        _ read: inout RecordStates,
        _ report: inout ExportReport
    ) throws -> [ItemRecords] {
        let namespaces = try namespacesToExport(keyring, prefix)
        if prefix != nil { return try namespaces.map { try reader.items(in: $0) } }
        return try namespaces.compactMap { namespace in
            let listed = try reader.skippingIfUnusable(
                namespace,
                unreadable: { report.findings.append($0.finding) }
            ) { try reader.items(in: namespace) }
            if listed == nil { read.addUnlisted(namespace) }
            return listed
        }
    }

    /// The states of the records that an export looks at, and which prefixes cannot be listed.
    private func recordStates(
        _ keyring: Keyring,
        _ prefix: String?,
        _ revision: (ItemRecord) throws -> RecordRevision?
    ) throws -> RecordStates {
        var states = RecordStates()
        for namespace in try namespacesToExport(keyring, prefix) {
            try reader.skippingIfUnusable(namespace, unreadable: { _ in states.addUnlisted(namespace) }) {
                try reader.forEachRecord(in: namespace) { states.add($0.name, try revision($0)) }
            }
        }
        return states
    }

    /// Returns nil if the record cannot be read.
    private func revision(of record: ItemRecord) throws -> RecordRevision? {
        do {
            return try reader.withContents(of: record, atLeast: 0) { $0.revision } ?? .absent
        } catch let error as LockboxError {
            _ = try reader.unreadableItem(record, error: error)
            return nil
        }
    }

    /// Reads a record once. Returns nil if it was removed meanwhile, or has no place in a backup.
    private func itemToExport(_ record: ItemRecord, _ read: inout RecordStates, _ report: inout ExportReport)
        throws -> StoredItem?
    {
        let found: Record?
        do {
            found = try reader.withContents(of: record, atLeast: .max) {
                Record(bytes: Array($0.bytes), revision: $0.revision)
            }
        } catch let error as LockboxError {
            report.findings.append(try reader.unreadableItem(record, error: error).finding)
            read.add(record.name, nil)
            return nil
        }
        guard let found else { return nil }
        read.add(record.name, found.revision)
        return try item(ItemRecord(name: record.name, id: record.id, contents: .present(found)), &report)
    }

    private func item(_ record: ItemRecord, _ report: inout ExportReport) throws -> StoredItem? {
        let keyring = try keyStore.currentKeyring()
        let metadata = try reader.readableMetadata(record, keyring) { report.findings.append($0.finding) }
        guard let metadata, !ItemKey.isReserved(prefix: metadata.key.prefix) else { return nil }
        var staysHere = metadata.attributes.accessibility.isThisDeviceOnly
        do {
            // An item that stays here may be locked. Under newer keys, the item that is there now was read.
            let item = staysHere ? nil : try reader.openItem(record, keyring, at: nil).content
            staysHere = item?.attributes.accessibility.isThisDeviceOnly ?? staysHere
            if staysHere { report.excludedKeys.append(metadata.key) }
            guard let item, !staysHere else { return nil }
            report.exportedCount += 1
            return item
        } catch let error as LockboxError {
            report.findings.append(try reader.unreadableItem(record, key: metadata.key, error: error).finding)
            return nil
        }
    }
}

/// The names and revisions of records at some time: equal to those of another time if no record has changed. Sums, as there may be
/// a million.
struct RecordStates: Equatable {
    private var count = 0
    private var names = SIMD4<UInt64>()
    private var sum = SIMD4<UInt64>()

    /// - Parameter revision: The record's revision, or nil if it cannot be read.
    mutating func add(_ record: RecordName, _ revision: RecordRevision?) {
        let name = Array(record.path.utf8)
        count += 1
        names &+= Self.hash(name)
        sum &+= Self.hash(name + withUnsafeBytes(of: (revision ?? .absent).numbers, Array.init))
    }

    /// A prefix that is listed the first time and not the last may have changed.
    mutating func addUnlisted(_ namespace: String) { add(RecordName(namespace: namespace, name: ""), nil) }

    func hasSameNames(as other: RecordStates) -> Bool { count == other.count && names == other.names }

    private static func hash(_ bytes: [UInt8]) -> SIMD4<UInt64> {
        var hash = SIMD4<UInt64>()
        bytes.withUnsafeBytes { input in
            withUnsafeMutableBytes(of: &hash) { Sodium.hash(input, into: $0) }
        }
        return hash
    }
}

extension StoreFinding {
    fileprivate static func changing(_ location: String) -> StoreFinding {
        StoreFinding(
            kind: .changing,
            location: location,
            reason: "the store was changed all the while, so an item that was moved meanwhile may be missing"
        )
    }
}

/// Those who can decrypt a backup.
public enum BackupRecipients: Sendable {
    /// Readers who know the passphrase: 1 to 1,024 bytes. An attacker with the file can keep guessing it.
    ///
    /// A guess, and the export too, costs scrypt with N = 2^workFactor, r = 8, p = 1, in 2^workFactor KiB of memory: 1 to 22, which
    /// is the most that age accepts. Its own default is 18.
    case passphrase(PasscodeSource, workFactor: Int = 18)

    /// The owner of the private key of one of these public keys of age, which begin with `age1`: 1 to 1,024. The export needs no
    /// secret then.
    case publicKeys([String])

    private static let maximumCount = AgeEncryptor.maximumRecipients

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

    /// The items that cannot be read, and the folders of prefixes that cannot be listed. They are not in the backup. And whether the
    /// store was changed all the while.
    public var findings: [StoreFinding] = []

    /// Where the backup is: at the path that was given or, if it is not complete and there is an earlier one, at that path with
    /// `.incomplete` at its end.
    public var path = "-"

    /// Where the earlier backup is, if there was one.
    public var keptBackup: String?
}
