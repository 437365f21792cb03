package import LockboxAge
public import LockboxCore
package import LockboxPlatform
@_spi(Extensions) public import LockboxStore

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
    /// only when it is complete and durable. A backup that lacks items because they cannot be read is written to `FILE.incomplete`. A
    /// file that is there already, whatever it is, stays as `FILE~`, in place of an earlier backup with that name.
    ///
    /// - Parameters:
    ///   - path: The file to write. `-` is standard output, which gets the backup when it is complete; until then it is in the folder
    ///     for temporary files.
    ///   - recipients: Those who can decrypt it.
    ///   - prefix: The key prefix whose items are exported. If `nil`, all items are.
    ///   - allowsEmpty: Whether a backup may have no item, which otherwise is an error.
    ///   - progress: Called after each item, anew in each attempt that does not keep others waiting.
    /// - Returns: The number of exported items, the items that were left out, and those that cannot be read; and where the
    ///   backup is, and the earlier file.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item is locked;
    ///   ``LockboxError/invalidPasscode(reason:)``; ``LockboxError/notEnoughMemory(bytes:)``;
    ///   ``LockboxError/unsafePermissions(path:reason:)`` if there is something at one of the paths that is not a file;
    ///   ``LockboxError/notABackup(path:)`` if `FILE~` is a file of another kind;
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
            prefix: prefix,
            allowsEmpty: allowsEmpty,
            calls: SystemCalls(),
            progress: progress
        )
    }

    package func export(
        to path: String,
        for recipients: [AgeRecipient],
        prefix: String? = nil,
        allowsEmpty: Bool = false,
        calls: SystemCalls,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ExportReport {
        let place = try path == "-" ? nil : BackupPlace(path, calls)
        try place?.checkIsFile()
        let age = try AgeError.mapped(path) { try AgeEncryptor(to: recipients) }
        var draft: BackupDraft?
        try ItemSnapshot(of: self, prefix: prefix).read(progress: progress) { part in
            switch part {
            case .begin(let storeID):
                draft = try BackupDraft(place?.path, BackupEncryptor(age.anew()), storeID: storeID, calls)
            case .item(let item): try draft?.add(item)
            case .staysOnThisDevice(let key): draft?.report.excludedKeys.append(key)
            case .finding(let finding): draft?.report.findings.append(finding)
            }
        }
        guard let draft, draft.report.exportedCount > 0 || !draft.report.isComplete || allowsEmpty else {
            throw LockboxError.emptyBackup(path: path)
        }
        try draft.finish(at: place)
        return draft.report
    }
}

/// A backup that is not complete yet, under a name of its own.
private final class BackupDraft {
    var report = ExportReport()
    private var file: AtomicFile
    private var backup: BackupEncryptor

    /// - Parameter path: The file that it may become. If nil, it becomes standard output.
    init(_ path: String?, _ backup: BackupEncryptor, storeID: String, _ calls: SystemCalls) throws {
        file = try path.map { try AtomicFile($0, calls) } ?? AtomicFile(standardOutput: calls)
        self.backup = backup
        try file.write(self.backup.begin(storeID, world.date))
    }

    func add(_ item: StoredItem) throws {
        try file.write(backup.encrypt(item))
        report.exportedCount += 1
    }

    func finish(at place: BackupPlace?) throws {
        try file.write(backup.finish())
        guard var place else { return try file.finish() }
        if !report.isComplete { place.path += ".incomplete" }
        let kept = place.kept
        if try place.checkIsFile() { try kept.checkIsReplaceable() }
        if try file.finish(as: place.path, keepingFormerAs: kept.path) { report.keptBackup = kept.path }
        report.path = place.path
    }
}

/// The path of a backup.
private struct BackupPlace {
    var path: String
    private let calls: SystemCalls

    init(_ path: String, _ calls: SystemCalls) throws {
        self.path = try Path.absolute(path)
        self.calls = calls
    }

    /// The place of a file that is there already.
    var kept: BackupPlace {
        var other = self
        other.path += "~"
        return other
    }

    /// Keeps a mistyped path from moving a folder, a link or a device.
    ///
    /// - Returns: Whether there is a file.
    /// - Throws: ``LockboxError/unsafePermissions(path:reason:)`` if there is something that is not a regular file.
    @discardableResult
    func checkIsFile() throws -> Bool {
        let kind = FileIdentity.kind(of: path, at: SystemCalls.currentDirectory, calls: calls)
        guard let kind, kind != FileIdentity.plainFile else { return kind != nil }
        throw LockboxError.unsafePermissions(
            path: .other(path),
            reason: "it is \(kind), which a backup cannot replace; choose another path"
        )
    }

    /// Keeps a file of another program from being lost, such as an editor's copy of what was at a mistyped path.
    ///
    /// - Throws: ``LockboxError/notABackup(path:)`` if there is a file that is neither empty nor encrypted with age.
    func checkIsReplaceable() throws {
        guard try checkIsFile() else { return }
        let file = CInt(try check(calls.open(path, at: SystemCalls.currentDirectory, O_RDONLY), "open", path))
        defer { calls.close(file) }
        let begin = Array("age-encryption.org/".utf8)
        var bytes = [UInt8](repeating: 0, count: begin.count)
        let count = try check(bytes.withUnsafeMutableBytes { calls.read(file, into: $0) }, "read", path)
        if count != 0, bytes != begin { throw LockboxError.notABackup(path: path) }
    }
}

/// Makes a backup, which is what these calls return, one after the other.
package struct BackupEncryptor {
    private var age: AgeEncryptor
    private var hash = SHA256()
    private var count = 0

    package init(_ age: AgeEncryptor) { self.age = age }

    package mutating func begin(_ store: String?, _ now: Date) -> [UInt8] {
        age.header + encrypt(BackupLines.first(store, now))
    }

    package mutating func encrypt(_ item: StoredItem) -> [UInt8] {
        count += 1
        return encrypt(BackupLines.item(item))
    }

    package mutating func finish() -> [UInt8] {
        age.encrypt(BackupLines.last(count, digest: hash.finished())) + age.finish()
    }

    private mutating func encrypt(_ line: [UInt8]) -> [UInt8] {
        hash.add(line)
        return age.encrypt(line)
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

    package func keys() throws -> [AgeRecipient] {
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

    /// Where the backup is: at the path that was given or, if it is not complete, at that path with `.incomplete` at its end.
    public var path = "-"

    /// Where the file is that was there before, if there was one.
    public var keptBackup: String?
}
