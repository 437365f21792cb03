package import LockboxAge
@_spi(Extensions) package import LockboxCore
import LockboxPlatform
package import LockboxStore

/// Reads a backup file, from the beginning as often as needed. Each time it must be what it was the first time.
///
/// A pipe, which cannot be read twice, is copied as it is read, still encrypted, to a file without a name.
package struct BackupReader: ~Copyable {
    private let path: String
    private let source: CInt
    /// The copy of a pipe; nil for a file.
    private let copy: CInt?
    /// The position in the file where the backup begins: another process may have read from standard input before.
    private let start: Int
    /// The SHA-256 hash of the bytes of each call of the first reading. Empty before that.
    private var verified: [UInt8]
    /// After the first reading, only what they unwrap: a guess at a passphrase is costly.
    private var identities: [AgeIdentity]
    private let calls: SystemCalls

    package init(_ path: String, _ identities: [AgeIdentity], _ calls: SystemCalls) throws {
        // Nothing is set before the last error: it would be destroyed twice.
        let path = path == "-" ? path : try Path.absolute(path)
        // Symbolic links are followed: the file is not part of the store, and is trusted only after it has been
        // authenticated.
        let descriptor =
            path == "-" ? calls.duplicate(STDIN_FILENO) : calls.openFollowingLinks(path, O_RDONLY)
        let opened = CInt(try check(descriptor, "open", path))
        let position = calls.seek(opened)
        do { copy = position == -Int(ESPIPE) ? try calls.openTemporary() : nil } catch {
            calls.close(opened)
            throw error
        }
        source = opened
        start = max(position, 0)
        verified = []
        self.path = path
        self.identities = identities
        self.calls = calls
    }

    deinit {
        calls.close(source)
        if let copy { calls.close(copy) }
    }

    /// Reads every item in order, to the end, which says how many there are.
    ///
    /// - Throws: ``LockboxError/notABackup(path:)``, ``LockboxError/wrongPasscode``, ``LockboxError/corrupt(record:reason:)`` and
    ///   other errors of damaged files.
    package mutating func read(_ body: (StoredItem) throws -> Void) throws {
        let isFirst = verified.isEmpty
        if !isFirst || copy == nil { try rewind() }
        do {
            var lines = BackupLines()
            var hashes: [UInt8] = []
            var decryptor = try AgeDecryptor(identities) { [source, copy, calls, path, verified] buffer in
                let count = try calls.readAll(isFirst ? source : copy ?? source, into: buffer, path: path)
                let bytes = UnsafeRawBufferPointer(buffer.part(..<count))
                if isFirst, let copy { try calls.writeAll(bytes, to: copy, path: "the copy of \(path)") }
                var hash = SHA256()
                hash.add(bytes)
                let digest = hash.finished()
                if !isFirst, !verified.dropFirst(hashes.count).starts(with: digest) {
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
            (verified, identities) = (hashes, [decryptor.fileKey])
        } catch { throw try mapped(error) }
    }
}

extension BackupReader {
    private func mapped(_ error: any Error) throws -> any Error {
        switch error {
        case AgeError.notAge: Self.refusal(of: try beginning(), path)
        case let error as AgeError: error.lockboxError(path, identities)
        case BackupError.damaged(let reason): LockboxError.corrupt(record: .other(path), reason: reason)
        case BackupError.unknown(let what):
            LockboxError.notSupported(
                operation: "reading \(path): it has \(what), which a newer version of Lockbox may read"
            )
        default: error
        }
    }

    private func rewind() throws {
        try check(calls.seek(copy ?? source, to: start), "lseek", path)
    }

    private func beginning() throws -> ArraySlice<UInt8> {
        var bytes = [UInt8](repeating: 0, count: 64)
        try rewind()
        let read = try bytes.withUnsafeMutableBytes {
            try calls.readAll(copy ?? source, into: $0, path: path)
        }
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
        // What an editor, a mail program or a shell of Windows may have put there.
        let text = beginning.drop { [0xEF, 0xBB, 0xBF, 0xFE, 0xFF, 0x20, 0x09, 0x0A, 0x0D].contains($0) }
            .filter { $0 != 0 }
        if text.starts(with: "-----BEGIN AGE ENCRYPTED FILE-----".utf8) {
            return .notSupported(
                operation:
                    "reading \(path), which is armored; `grep -v -e ----- FILE | tr -d '\\r' | base64 -d` decodes it"
            )
        }
        let intro = Array("age-encryption.org/v1".utf8)
        if text.starts(with: intro) || intro.starts(with: text) {
            return .corrupt(record: .other(path), reason: AgeError.damage)
        }
        return .notABackup(path: path)
    }
}

extension AgeError {
    static func mapped<Result>(_ path: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as AgeError { throw error.lockboxError(path) }
    }

    fileprivate static let damage = "it was cut short or changed on its way; copy it again, in binary"

    func lockboxError(_ path: String, _ identities: [AgeIdentity] = []) -> LockboxError {
        switch self {
        case .notAge: .notABackup(path: path)
        case .header(let reason): .corrupt(record: .other(path), reason: reason)
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
        case .headerNotAuthentic, .payload:
            .corrupt(
                record: .other(path),
                reason:
                    "\(Self.damage); the \(identities.contains(where: \.isKey) ? "key" : "passphrase") is right"
            )
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
