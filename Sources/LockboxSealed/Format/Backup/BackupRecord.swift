import LockboxCore
import LockboxPlatform
import LockboxSodium

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
