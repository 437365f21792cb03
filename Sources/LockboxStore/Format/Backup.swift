import LockboxAge
@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// Reads a backup file, from the beginning as often as needed. Each time it must be what it was the first time.
///
/// A pipe, which cannot be read twice, is first copied as it comes, still encrypted, to a file without a name.
struct BackupReader: ~Copyable {
    private let path: String
    private let file: CInt
    /// The position in the file where the backup begins: of standard input, somebody may have read before.
    private let start: off_t
    /// The SHA-256 hash of the bytes of each call of the first reading. Empty before that.
    private var verified: [UInt8]
    private let identities: [AgeIdentity]
    private let calls: SystemCalls

    init(_ path: String, _ identities: [AgeIdentity], _ calls: SystemCalls) throws {
        // Nothing is set before the last error: it would be destroyed twice.
        let path = path == "-" ? path : try Path.absolute(path)
        // Symbolic links are followed: the file is not part of the store, and is trusted only after it has been
        // authenticated.
        let descriptor =
            path == "-" ? dup(STDIN_FILENO) : LockboxPlatform.open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
        let opened = CInt(try check(errnoIfNegative(descriptor), "open", path))
        let position = lseek(opened, 0, SEEK_CUR)
        let isPipe = position < 0 && errno == ESPIPE
        defer { if isPipe { calls.close(opened) } }
        file = isPipe ? try Self.copy(opened, path, calls) : opened
        start = max(position, 0)
        verified = []
        self.path = path
        self.identities = identities
        self.calls = calls
    }

    deinit { calls.close(file) }

    private static func copy(_ source: CInt, _ path: String, _ calls: SystemCalls) throws -> CInt {
        let folder = try Environment["TMPDIR"] ?? "/tmp"
        let name = "\(folder)/lockbox-\(String(UInt64.random(in: .min ... .max), radix: 16))"
        let flags = O_RDWR | O_CREAT | O_EXCL
        let created = calls.open(name, at: SystemCalls.currentDirectory, flags, mode: 0o600)
        let copy = CInt(try check(created, "open", name))
        do {
            _ = calls.unlink(name, at: SystemCalls.currentDirectory)
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            var isFirst = true
            while true {
                let count = try buffer.withUnsafeMutableBytes {
                    try calls.readAll(source, into: $0, path: path)
                }
                if count == 0 { return copy }
                // A pipe that never ends would fill the disk.
                if isFirst, !Age.isBeginning(buffer) { throw refusal(of: buffer[..<count], path) }
                isFirst = false
                try buffer[..<count].withUnsafeBytes { try calls.writeAll($0, to: copy, path: folder) }
            }
        } catch {
            calls.close(copy)
            throw error
        }
    }

    /// Reads every item in order, to the end, which says how many there are.
    ///
    /// - Throws: ``LockboxError/notABackup(path:)``, ``LockboxError/wrongPasscode``, ``LockboxError/corrupt(record:reason:)`` and
    ///   other errors of damaged files.
    mutating func read(_ body: (StoredItem) throws -> Void) throws {
        try rewind()
        do {
            var lines = BackupLines()
            var hashes: [UInt8] = []
            var decryptor = try AgeDecryptor(identities) { [file, calls, path, verified] buffer in
                let count = try calls.readAll(file, into: buffer, path: path)
                var hash = SHA256()
                hash.add(UnsafeRawBufferPointer(buffer.part(..<count)))
                let digest = hash.finished()
                if !verified.isEmpty, !verified.dropFirst(hashes.count).starts(with: digest) {
                    throw BackupError.damaged(
                        "it was changed while it was imported; the items before the change are in the store"
                    )
                }
                hashes += digest
                return count
            }
            while let bytes = try decryptor.next() {
                try lines.add(bytes) { item in
                    // These are the store's own, and no export contains them.
                    if ItemKey.isReserved(prefix: item.key.prefix) {
                        throw BackupError.damaged("it has an item with a reserved prefix")
                    }
                    try body(item)
                }
            }
            try lines.checkIsWhole()
            verified = hashes
        } catch AgeError.notAge {
            throw Self.refusal(of: try beginning(), path)
        } catch let error as AgeError {
            throw error.lockboxError(path, identities)
        } catch BackupError.damaged(let reason) {
            throw LockboxError.corrupt(record: path, reason: reason)
        } catch BackupError.unknown(let what) {
            throw LockboxError.notSupported(
                operation: "reading \(path): it has \(what), which a newer version of Lockbox may read"
            )
        }
    }
}

extension BackupReader {
    private func rewind() throws { try check(errnoIfNegative(lseek(file, start, SEEK_SET)), "lseek", path) }

    private func beginning() throws -> ArraySlice<UInt8> {
        var bytes = [UInt8](repeating: 0, count: 64)
        try rewind()
        let read = try bytes.withUnsafeMutableBytes { try calls.readAll(file, into: $0, path: path) }
        return bytes[..<read]
    }

    /// The error for a file that does not begin like one of age.
    private static func refusal(of beginning: ArraySlice<UInt8>, _ path: String) -> LockboxError {
        if beginning.starts(with: "LBXE".utf8) {
            return .notSupported(
                operation:
                    "reading \(path), a backup of the format before 0.1.0; Lockbox at the commit 377b19f reads it"
            )
        }
        if beginning.starts(with: "-----BEGIN AGE ENCRYPTED FILE-----".utf8) {
            return .notSupported(
                operation:
                    "reading \(path), which is armored; without its first and last line, `base64 -d` decodes it"
            )
        }
        return .notABackup(path: path)
    }
}

extension AgeError {
    static func mapped<Result>(_ path: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as AgeError { throw error.lockboxError(path) }
    }

    func lockboxError(_ path: String, _ identities: [AgeIdentity] = []) -> LockboxError {
        switch self {
        case .notAge: .notABackup(path: path)
        case .header(let reason): .corrupt(record: path, reason: reason)
        case .noMatch(let types) where types.allSatisfy({ $0 != "X25519" && $0 != "scrypt" }):
            .notSupported(
                operation:
                    "reading a backup for recipients of the type \(String((types.first ?? "").prefix(40)))"
            )
        case .noMatch(["scrypt"]) where identities.allSatisfy(\.isKey):
            .invalidPasscode(reason: "the backup is encrypted with a passphrase, not to a public key")
        case .noMatch(let types) where types != ["scrypt"] && !identities.contains(where: \.isKey):
            .invalidPasscode(reason: "the backup is encrypted to a public key, not with a passphrase")
        case .noMatch: .wrongPasscode
        case .headerNotAuthentic, .payload: .authenticationFailed(record: path)
        case .workFactor(let factor, let maximum):
            .invalidPasscode(
                reason:
                    "a guess at the backup's passphrase costs 2^\(factor) passes; the limit, maximumWorkFactor, is \(maximum)"
            )
        case .notEnoughMemory(let bytes): .notEnoughMemory(bytes: bytes)
        case .key(let reason): .invalidPasscode(reason: reason)
        }
    }
}

/// Makes a backup, which is what these calls return, one after the other.
struct BackupEncryptor {
    private var age: AgeEncryptor
    private var hash = SHA256()
    private var count = 0

    init(_ recipients: [AgeRecipient], _ path: String) throws {
        age = try AgeError.mapped(path) { try AgeEncryptor(to: recipients) }
    }

    mutating func begin(_ store: StoreID?, _ now: Date) -> [UInt8] {
        age.header + encrypt(BackupLines.first(store, now))
    }

    mutating func encrypt(_ item: StoredItem) -> [UInt8] {
        count += 1
        return encrypt(BackupLines.item(item))
    }

    mutating func finish() -> [UInt8] {
        age.encrypt(BackupLines.last(count, digest: hash.finished())) + age.finish()
    }

    private mutating func encrypt(_ line: [UInt8]) -> [UInt8] {
        hash.add(line)
        return age.encrypt(line)
    }
}

/// Where a backup is going.
enum BackupFile {
    /// Returns the earlier backup at the path, or nil if there is none. Keeps a mistyped path from overwriting a keybag
    /// or a device.
    ///
    /// - Throws: ``LockboxError/notABackup(path:)`` if there is another file, unless it is empty;
    ///   ``LockboxError/unsafePermissions(path:reason:)`` if it is not a regular file.
    static func replaceable(_ path: String, _ calls: SystemCalls) throws -> FileState? {
        let path = try Path.absolute(path)
        var status = stat()
        guard calls.stat(path, at: SystemCalls.currentDirectory, &status) == 0 else { return nil }
        let kind = FileIdentity.kind(status)
        guard kind == FileIdentity.plainFile else {
            throw LockboxError.unsafePermissions(
                path: path,
                reason: "it is \(kind), which a backup cannot replace; choose another path"
            )
        }
        let opened = try check(calls.open(path, at: SystemCalls.currentDirectory, O_RDONLY), "open", path)
        let file = CInt(opened)
        defer { calls.close(file) }
        var start = [UInt8](repeating: 0, count: Age.introLength)
        let count = try start.withUnsafeMutableBytes { try calls.readAll(file, into: $0, path: path) }
        if count == 0 { return nil }
        guard Age.isBeginning(start) else { throw LockboxError.notABackup(path: path) }
        return FileState(status)
    }

    /// Runs `body` while others who put backups into the folder wait.
    static func alone<Result>(at path: String, _ calls: SystemCalls, _ body: () throws -> Result) throws
        -> Result
    {
        let folder = Path.parent(of: try Path.absolute(path))
        let opened = calls.open(folder, at: SystemCalls.currentDirectory, O_RDONLY | O_DIRECTORY)
        let file = CInt(try check(opened, "open", folder))
        defer { calls.close(file) }
        // Not every file system has locks. Without one, only those who come in the same moment are not noticed.
        _ = calls.waitForLock(file)
        return try body()
    }
}

/// A backup that another one is about to replace: what it has and the new one lacks so far.
struct EarlierBackup {
    private typealias Dates = (created: Date, modified: Date)

    private let path: String
    private let calls: SystemCalls
    /// Nil if it cannot be read, so that nobody knows what would be lost.
    private var lacking: [ItemKey: Dates]?

    /// Reads it, if the new one's passphrase opens it. Nobody who encrypts to a public key can read what is there.
    init(_ path: String, _ identities: [AgeIdentity], _ calls: SystemCalls) throws {
        self.path = try Path.absolute(path)
        self.calls = calls
        lacking = identities.isEmpty ? nil : try? Self.items(path, identities, calls)
    }

    private static func items(_ path: String, _ identities: [AgeIdentity], _ calls: SystemCalls) throws
        -> [ItemKey: Dates]
    {
        var reader = try BackupReader(path, identities, calls)
        let today = Date()
        var items: [ItemKey: Dates] = [:]
        try reader.read { item in
            if item.attributes.isExpired(at: today) { return }
            items[item.key] = (item.attributes.created, item.attributes.modified)
        }
        return items
    }

    /// Another store's item may have the same key, but was created at another time.
    mutating func isFollowed(by new: StoredItem) {
        guard let old = lacking?[new.key], old.created == new.attributes.created,
            old.modified <= new.attributes.modified
        else { return }
        lacking?[new.key] = nil
    }

    /// Gives it a second name that no other file has, if anything would be lost, and returns that.
    func keepIfNeeded() throws -> String? {
        if lacking?.isEmpty == true { return nil }
        var number = 1
        while true {
            let kept = "\(path).earlier-\(number)"
            let result = calls.link(path, to: kept)
            if result >= 0 { return kept }
            switch CInt(-result) {
            case EEXIST: number += 1
            // A file system without hard links, such as FAT.
            case EPERM, EOPNOTSUPP, ENOSYS:
                let current = SystemCalls.currentDirectory
                if FileIdentity.kind(of: kept, at: current, calls: calls) == nil {
                    try check(calls.rename(path, at: current, to: kept, at: current), "rename", kept)
                    return kept
                }
                number += 1
            default: try check(result, "link", kept)
            }
        }
    }
}
