import LockboxCore
import LockboxFiles
import LockboxPlatform
import LockboxSodium

/// Reads a backup file, from the beginning as often as needed.
struct BackupReader: ~Copyable {
    private let path: String
    private let file: CInt
    private let calls: SystemCalls

    init(_ path: String, _ calls: SystemCalls) throws {
        // Nothing is set before the last error: it would be destroyed twice.
        let path = try Path.absolute(path)
        // Symbolic links are followed: the file is not part of the store, and is trusted only after it has been
        // authenticated.
        let descriptor = LockboxPlatform.open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        file = CInt(try check(descriptor < 0 ? -Int(errno) : Int(descriptor), "open", path))
        self.path = path
        self.calls = calls
    }

    deinit { calls.close(file) }

    /// Reads every item in order, and checks that nothing follows the last box.
    ///
    /// - Throws: ``LockboxError/wrongPasscode``; ``LockboxError/corrupt(record:reason:)`` and other errors of
    ///   damaged records.
    func read(_ key: SecretKey, _ header: [UInt8], _ body: (StoredItem) throws -> Void) throws {
        try seek(header.count)
        var index: UInt64 = 0
        while true {
            var box = try next()
            let content = try mappingErrors {
                try BackupRecord.open(&box, index: index, header: header, key: key)
            }
            switch content {
            case .item(let item):
                // These are the store's own, and no export contains them.
                if ItemKey.isReserved(prefix: item.key.prefix) {
                    throw malformed("it has an item with a reserved prefix")
                }
                try body(item)
            case .end(let count):
                guard count == index, try read(1).isEmpty else {
                    throw malformed("it does not end where it should")
                }
                return
            }
            index += 1
        }
    }

    func header() throws -> [UInt8] {
        try seek(0)
        let header = try read(BackupRecord.headerLength)
        guard header.starts(with: BackupRecord.magic) else { throw LockboxError.notABackup(path: path) }
        return header
    }

    /// Returns what tells the passphrase, unless that would cost too much.
    func passcode(_ header: [UInt8], maximum: PasscodeCost) throws -> BackupPasscode {
        let block = try mappingErrors { try header.withUnsafeBytes { try BackupRecord.passcode($0) } }
        if block.cost.memory > maximum.memory || block.cost.operations > maximum.operations {
            throw LockboxError.invalidPasscode(
                reason:
                    "the backup needs \(block.cost.operations) passes over \(block.cost.memory) bytes; the limit, "
                    + "maximumStrength, is \(maximum.operations) over \(maximum.memory)"
            )
        }
        return block
    }

    private func seek(_ offset: Int) throws {
        let result = lseek(file, off_t(offset), SEEK_SET)
        if result < 0, errno == ESPIPE {
            throw LockboxError.unsafePermissions(
                path: path,
                reason: "it cannot be read twice, as a backup must be; copy it to a regular file"
            )
        }
        try check(result < 0 ? -Int(errno) : 0, "lseek", path)
    }

    private func next() throws -> [UInt8] {
        let prefix = try read(4)
        guard prefix.count == 4 else { throw malformed("it is cut short") }
        let length = prefix.withUnsafeBytes { Int(UInt32(littleEndian: $0.loadUnaligned(as: UInt32.self))) }
        guard length <= BackupRecord.maximumBoxLength else {
            throw malformed("one of its lengths is impossible")
        }
        let box = try read(length)
        guard box.count == length else { throw malformed("it is cut short") }
        return box
    }

    /// Reads `count` bytes, or fewer at the end of the file.
    private func read(_ count: Int) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            let buffer = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[..<count]))
            filled = try calls.readAll(file, into: buffer, path: path)
        }
    }

    private func malformed(_ reason: String) -> LockboxError { .corrupt(record: path, reason: reason) }

    private func mappingErrors<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as RecordError { throw error.lockboxError(path) }
    }
}

extension BackupRecord {
    /// The first bytes of every backup.
    static var magic: [UInt8] { withUnsafeBytes(of: RecordKind.backup.rawValue.littleEndian, Array.init) }

    /// Returns whether there is an earlier backup at the path. Keeps a mistyped path from overwriting a keybag
    /// or a device.
    ///
    /// - Throws: ``LockboxError/notABackup(path:)`` if there is another file, unless it is empty;
    ///   ``LockboxError/unsafePermissions(path:reason:)`` if it is not a regular file.
    static func isReplaceable(_ path: String, _ calls: SystemCalls) throws -> Bool {
        let path = try Path.absolute(path)
        let kind = FileIdentity.kind(of: path, at: SystemCalls.currentDirectory, calls)
        guard let kind else { return false }
        guard kind == FileIdentity.plainFile else {
            throw LockboxError.unsafePermissions(
                path: path,
                reason: "it is \(kind), which a backup cannot replace; choose another path"
            )
        }
        let opened = try check(calls.open(path, at: SystemCalls.currentDirectory, O_RDONLY), "open", path)
        let file = CInt(opened)
        defer { calls.close(file) }
        var start = [UInt8](repeating: 0, count: magic.count)
        let count = try start.withUnsafeMutableBytes { try calls.readAll(file, into: $0, path: path) }
        if count == 0 { return false }
        guard start == magic else { throw LockboxError.notABackup(path: path) }
        return true
    }
}
