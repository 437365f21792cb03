import LockboxCore
import LockboxPlatform

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
        let kind = FileIdentity.kind(of: path, at: SystemCalls.currentDirectory, calls: calls)
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

/// The format of a backup file: a header, then boxes, each preceded by its length. The last box contains the
/// number of items.
enum BackupRecord {
    /// Magic, version, suite, two zero bytes; passcode block.
    static let headerLength = 8 + BackupPasscode.length
    static let maximumBoxLength =
        SealedBox.overhead + itemHeaderLength + ItemMetadata.boxLengths.upperBound
        + ItemValue.maximumLength

    private static let itemHeaderLength = 8
    private static let endLength = 256
    private static let item: UInt8 = 1
    private static let end: UInt8 = 2

    enum Content {
        case item(StoredItem)
        case end(count: UInt64)
    }

    static func header(_ block: BackupPasscode) -> [UInt8] {
        var header = [UInt8](repeating: 0, count: headerLength)
        header.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            RecordKind.backup.write(to: &writer)
            writer.skip(2)
            block.write(to: &writer)
        }
        return header
    }

    static func passcode(_ header: UnsafeRawBufferPointer) throws(RecordError) -> BackupPasscode {
        var reader = ByteReader(header)
        try RecordKind.backup.check(&reader)
        guard reader.skipZeros(2) else { throw .malformed("its header is not well-formed") }
        return try BackupPasscode(&reader)
    }

    /// Returns a sealed box, preceded by its length. `index` is the number of boxes before it.
    static func seal(_ content: Content, index: UInt64, header: [UInt8], key: SecretKey) -> [UInt8] {
        let length = SealedBox.overhead + plaintextLength(content)
        var record = [UInt8](repeating: 0, count: 4 + length)
        record.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            writer.write(UInt32(length))
            writer.skip(SealedBox.prefixLength)
            write(content, to: &writer)
            withBinding(index, header) { context, data in
                SealedBox.seal(
                    UnsafeMutableRawBufferPointer(rebasing: bytes[4...]),
                    authenticating: data,
                    context: context,
                    key: key,
                    personal: .backup
                )
            }
        }
        return record
    }

    /// Opens a box, without its length, in place, and wipes it afterwards.
    static func open(
        _ box: inout [UInt8],
        index: UInt64,
        header: [UInt8],
        key: SecretKey
    ) throws -> Content {
        try box.withUnsafeMutableBytes { bytes in
            defer { bytes.initializeMemory(as: UInt8.self, repeating: 0) }
            let plaintext = withBinding(index, header) { context, data in
                SealedBox.open(bytes, authenticating: data, context: context, key: key, personal: .backup)
            }
            guard let plaintext else { throw RecordError.notAuthentic }
            return try read(UnsafeRawBufferPointer(plaintext))
        }
    }

    // MARK: Plaintext: kind, class, whether its choice is proven, zero, length of the metadata; metadata; value. Last box: kind, zeros,
    // count.

    private static func plaintextLength(_ content: Content) -> Int {
        switch content {
        case .end: endLength
        case .item(let item):
            itemHeaderLength + metadata(item).plaintextLength + ItemValue.length(item.value)
        }
    }

    private static func write(_ content: Content, to writer: inout ByteWriter) {
        switch content {
        case .end(let count):
            writer.write(end)
            writer.skip(7)
            writer.write(count)
        case .item(let stored):
            let metadata = metadata(stored)
            writer.write(item)
            writer.write(stored.attributes.accessibility.number)
            writer.write(stored.attributes.origin.proof == .unlocked ? 1 : 0 as UInt8)
            writer.skip(1)
            writer.write(UInt32(metadata.plaintextLength))
            let start = writer.offset
            metadata.write(to: &writer)
            writer.skip(start + metadata.plaintextLength - writer.offset)
            ItemValue.write(stored.value, expires: stored.attributes.expires, to: &writer)
        }
    }

    private static func read(_ plaintext: UnsafeRawBufferPointer) throws -> Content {
        var reader = ByteReader(plaintext)
        switch reader.read(UInt8.self) {
        case end:
            guard reader.skipZeros(7), let count = reader.read(UInt64.self) else { break }
            return .end(count: count)
        case item:
            guard let accessibility = reader.read(UInt8.self).flatMap(Accessibility.init(number:)),
                let proven = reader.read(UInt8.self), proven <= 1, reader.skipZeros(1),
                let length = reader.read(UInt32.self),
                let metadataBytes = reader.readBytes(Int(length)),
                let valueBytes = reader.readBytes(reader.remaining)
            else { break }
            var metadata = try ItemMetadata(metadataBytes, accessibility: accessibility)
            metadata.attributes.origin = ClassOrigin(proven == 1 ? .unlocked : .missing)
            guard let value = try ItemValue.read(valueBytes, now: nil) else {
                break
            }
            return .item(StoredItem(key: metadata.key, value: value, checked: metadata.attributes))
        default: break
        }
        throw RecordError.malformed("one of its items is not well-formed")
    }

    private static func metadata(_ item: StoredItem) -> ItemMetadata {
        ItemMetadata(key: item.key, attributes: item.attributes)
    }

    /// Binds a box to its position and its file.
    private static func withBinding<Result>(
        _ index: UInt64,
        _ header: [UInt8],
        _ body: (_ context: UnsafeRawBufferPointer, _ data: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeBytes(of: index.littleEndian) { context in header.withUnsafeBytes { body(context, $0) } }
    }
}

/// A backup's passphrase: Argon2id's cost, the salt, and a value that tells a wrong passphrase from damage. 64 bytes.
struct BackupPasscode: Sendable, Equatable {
    static let length = PasscodeCost.length + 16 + 32

    let cost: PasscodeCost
    private let salt: SIMD16<UInt8>
    private let check: SIMD32<UInt8>

    /// Creates a block with a random salt, and the passphrase's key.
    static func make(
        _ passphrase: UnsafeRawBufferPointer,
        strength: PasscodeStrength
    ) throws -> (block: BackupPasscode, key: SecretKey) {
        var salt = SIMD16<UInt8>()
        withUnsafeMutableBytes(of: &salt) { Sodium.fillRandom($0) }
        let cost = PasscodeCost(strength)
        let (key, check) = try derive(passphrase, cost, salt)
        return (BackupPasscode(cost: cost, salt: salt, check: check), key)
    }

    /// Returns the passphrase's key, or throws if the passphrase is wrong.
    func key(_ passphrase: UnsafeRawBufferPointer) throws -> SecretKey {
        let (key, check) = try Self.derive(passphrase, cost, salt)
        let isRight = withUnsafeBytes(of: check) { a in
            withUnsafeBytes(of: self.check) { b in Sodium.isEqual(a, b) }
        }
        guard isRight else { throw LockboxError.wrongPasscode }
        return key
    }

    /// Runs Argon2id once for 64 bytes: the first half is the key, the second half the check value.
    private static func derive(
        _ passphrase: UnsafeRawBufferPointer,
        _ cost: PasscodeCost,
        _ salt: SIMD16<UInt8>
    ) throws -> (SecretKey, SIMD32<UInt8>) {
        let output = try SecretKey(count: 64) { try cost.derive(passphrase, salt: salt, into: $0) }
        let key = try SecretKey { key in
            output.withBytes { key.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<32])) }
        }
        let check = output.withBytes { $0.loadUnaligned(fromByteOffset: 32, as: SIMD32<UInt8>.self) }
        return (key, check)
    }

    // MARK: The record

    func write(to writer: inout ByteWriter) {
        cost.write(to: &writer)
        withUnsafeBytes(of: salt) { writer.write($0) }
        withUnsafeBytes(of: check) { writer.write($0) }
    }

    init(_ reader: inout ByteReader) throws(RecordError) {
        let cost = try PasscodeCost(&reader)
        guard let salt = reader.readBytes(16)?.loadUnaligned(as: SIMD16<UInt8>.self),
            let check = reader.readBytes(32)?.loadUnaligned(as: SIMD32<UInt8>.self)
        else { throw .malformed("it is cut short") }
        self.init(cost: cost, salt: salt, check: check)
    }

    private init(cost: PasscodeCost, salt: SIMD16<UInt8>, check: SIMD32<UInt8>) {
        self.cost = cost
        self.salt = salt
        self.check = check
    }
}

/// A backup that another one is about to replace: what it has and the new one lacks so far.
struct EarlierBackup {
    private struct Dates {
        let created: Date
        let modified: Date
    }

    private let path: String
    private let calls: SystemCalls
    /// Nil if it cannot be read, so that nobody knows what would be lost.
    private var lacking: [ItemKey: Dates]?

    /// Reads it, if the new one's passphrase opens it.
    init(_ path: String, _ passphrase: UnsafeRawBufferPointer, _ calls: SystemCalls) throws {
        self.path = try Path.absolute(path)
        self.calls = calls
        lacking = try? Self.items(path, passphrase, calls)
    }

    private static func items(_ path: String, _ passphrase: UnsafeRawBufferPointer, _ calls: SystemCalls)
        throws
        -> [ItemKey: Dates]
    {
        let reader = try BackupReader(path, calls)
        let header = try reader.header()
        let key = try reader.passcode(header, maximum: PasscodeCost(.sensitive)).key(passphrase)
        let today = Date()
        var items: [ItemKey: Dates] = [:]
        try reader.read(key, header) { item in
            if item.attributes.isExpired(at: today) { return }
            items[item.key] = Dates(created: item.attributes.created, modified: item.attributes.modified)
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
