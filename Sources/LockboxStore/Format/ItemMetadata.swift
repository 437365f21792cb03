import LockboxCore
import LockboxPlatform

/// The key and the attributes, sealed separately so that listing items never opens a value. The class is in the
/// header.
struct ItemMetadata {
    let key: ItemKey
    var attributes: ItemAttributes

    /// The possible lengths of the metadata box: the plaintext is padded to a multiple of 256 bytes.
    static let boxLengths: ClosedRange<Int> =
        SealedBox.overhead + 256...SealedBox.overhead
        + Padding.block(
            fixedLength + 2 * ItemKey.maximumLength + 2 * ItemAttributes.maximumTextLength
                + SearchableAttributes.maximumLength
        )

    private static let fixedLength = 38
    private static let hasLabel: UInt8 = 1
    private static let hasComment: UInt8 = 2
    private static let hasSearchable: UInt8 = 4

    var boxLength: Int { SealedBox.overhead + plaintextLength }

    var plaintextLength: Int {
        let texts = [key.prefix, key.key, attributes.label ?? "", attributes.comment ?? ""]
        let length = texts.reduce(Self.fixedLength) { $0 + $1.utf8.count }
        return Padding.block(length + SearchableAttributes.length(attributes.searchable))
    }

    func write(to writer: inout ByteWriter) {
        writer.write(attributes.created.timeIntervalSinceReferenceDate)
        writer.write(attributes.modified.timeIntervalSinceReferenceDate)
        writer.write(attributes.expires?.timeIntervalSinceReferenceDate ?? ItemValue.never)
        writer.write(UInt32(attributes.size))
        writer.write(attributes.format.rawValue)
        writer.write(
            (attributes.label == nil ? 0 : Self.hasLabel) | (attributes.comment == nil ? 0 : Self.hasComment)
                | (attributes.searchable.isEmpty ? 0 : Self.hasSearchable)
        )
        let texts = [key.prefix, key.key, attributes.label ?? "", attributes.comment ?? ""]
        for text in texts { writer.write(UInt16(text.utf8.count)) }
        for text in texts { writer.write(text) }
        SearchableAttributes.write(attributes.searchable, to: &writer)
    }

    private static let malformed = RecordError.malformed("its metadata is not well-formed")
}

extension ItemMetadata {
    init(_ plaintext: UnsafeRawBufferPointer, accessibility: Accessibility) throws(RecordError) {
        var reader = ByteReader(plaintext)
        guard let created = reader.readDouble(), let modified = reader.readDouble(),
            let expires = reader.readDouble(), let size = reader.read(UInt32.self),
            let format = reader.read(UInt8.self), let flags = reader.read(UInt8.self)
        else { throw Self.malformed }
        guard let prefixLength = reader.read(UInt16.self), let keyLength = reader.read(UInt16.self),
            let labelLength = reader.read(UInt16.self), let commentLength = reader.read(UInt16.self),
            let prefix = reader.readText(Int(prefixLength)), let key = reader.readText(Int(keyLength)),
            let label = reader.readText(Int(labelLength)), let comment = reader.readText(Int(commentLength)),
            flags & ~(Self.hasLabel | Self.hasComment | Self.hasSearchable) == 0,
            let searchable = flags & Self.hasSearchable == 0 ? [:] : SearchableAttributes.read(&reader),
            reader.skipZeros(reader.remaining),
            let itemKey = try? ItemKey(storedPrefix: prefix, key: key),
            let attributes = try? ItemAttributes(
                accessibility: accessibility,
                created: Date(timeIntervalSinceReferenceDate: created),
                modified: Date(timeIntervalSinceReferenceDate: modified),
                expires: expires == ItemValue.never ? nil : Date(timeIntervalSinceReferenceDate: expires),
                label: flags & Self.hasLabel == 0 ? nil : label,
                comment: flags & Self.hasComment == 0 ? nil : comment,
                searchable: searchable,
                size: Int(size),
                format: ValueFormat(rawValue: format)
            )
        else { throw Self.malformed }
        self.init(key: itemKey, attributes: attributes)
    }
}

/// The plaintext of a value: format, three zero bytes, length, expiry; the value; zero padding.
///
/// The expiry is stored both here and in the metadata, so that reading a value does not open the metadata.
enum ItemValue {
    static let maximumLength = Padding.bucket(headerLength + ArchivedValue.maximumSize)

    private static let headerLength = 16
    /// The expiry of an item that never expires.
    static let never = Double.infinity

    /// The size of the largest value whose plaintext has at most `length` bytes.
    static func maximumSize(in length: Int) -> Int {
        var (fits, exceeds) = (0, ArchivedValue.maximumSize + 1)
        while exceeds - fits > 1 {
            let middle = (fits + exceeds) / 2
            if Padding.bucket(headerLength + middle) <= length { fits = middle } else { exceeds = middle }
        }
        return fits
    }

    static func length(_ value: ArchivedValue) -> Int { Padding.bucket(headerLength + value.data.count) }

    static func write(_ value: ArchivedValue, expires: Date?, to writer: inout ByteWriter) {
        writer.write(value.format.rawValue)
        writer.skip(3)
        writer.write(UInt32(value.data.count))
        writer.write(expires?.timeIntervalSinceReferenceDate ?? never)
        value.data.withUnsafeBytes { writer.write($0) }
    }

    /// Returns nil if the value has expired at `now`.
    static func read(_ plaintext: UnsafeRawBufferPointer, now: Date?) throws -> ArchivedValue? {
        var reader = ByteReader(plaintext)
        guard let format = reader.read(UInt8.self), reader.skipZeros(3),
            let length = reader.read(UInt32.self), let expires = reader.readDouble(), format > 0,
            !expires.isNaN, let data = reader.readBytes(Int(length)),
            plaintext.count == Padding.bucket(headerLength + Int(length))
        else { throw RecordError.malformed("its value is not well-formed") }
        if let now, expires <= now.timeIntervalSinceReferenceDate { return nil }
        return try ArchivedValue(
            data: data.isEmpty ? Data() : Data(bytes: data.baseAddress!, count: data.count),
            format: ValueFormat(rawValue: format)
        )
    }
}

/// The searchable attributes in an item's metadata: their number, then for each the lengths of its name and its
/// text, the name, and the text. In the order of the names' bytes, each name once. Nothing if there are none.
enum SearchableAttributes {
    static let maximumLength =
        1 + 4 * ItemAttributes.maximumSearchableCount + ItemAttributes.maximumSearchableLength

    static func length(_ searchable: [String: String]) -> Int {
        if searchable.isEmpty { return 0 }
        return searchable.reduce(1) { $0 + 4 + $1.key.utf8.count + $1.value.utf8.count }
    }

    static func write(_ searchable: [String: String], to writer: inout ByteWriter) {
        if searchable.isEmpty { return }
        writer.write(UInt8(searchable.count))
        let sorted = searchable.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        for (name, text) in sorted {
            writer.write(UInt16(name.utf8.count))
            writer.write(UInt16(text.utf8.count))
            writer.write(name)
            writer.write(text)
        }
    }

    /// Returns nil if they are not well-formed.
    static func read(_ reader: inout ByteReader) -> [String: String]? {
        guard let count = reader.read(UInt8.self), count > 0 else { return nil }
        var searchable: [String: String] = [:]
        var last: String?
        for _ in 0..<count {
            guard let nameLength = reader.read(UInt16.self), let textLength = reader.read(UInt16.self),
                let name = reader.readText(Int(nameLength)), let text = reader.readText(Int(textLength)),
                last.map({ $0.utf8.lexicographicallyPrecedes(name.utf8) }) ?? true,
                searchable.updateValue(text, forKey: name) == nil
            else { return nil }
            last = name
        }
        return searchable
    }
}

/// Padding that hides the length of what is sealed.
enum Padding {
    /// Returns the padded length of a value: 256, 512, 1,024, 2,048 or 4,096 bytes; above that, the next length
    /// whose binary form ends in enough zeros (Padmé, from Nikitin et al., "Reducing Metadata Leakage from
    /// Encrypted Files", PETS 2019). This adds at most 12 % and leaks O(log log n) bits of the length.
    static func bucket(_ length: Int) -> Int {
        if length <= 256 { return 256 }
        if length <= 4096 { return 1 << (Int.bitWidth - (length - 1).leadingZeroBitCount) }
        let exponent = Int.bitWidth - 1 - length.leadingZeroBitCount
        let mantissaBits = Int.bitWidth - exponent.leadingZeroBitCount
        let mask = (1 << (exponent - mantissaBits)) - 1
        return (length + mask) & ~mask
    }

    /// Returns `length` rounded up to a multiple of 256.
    static func block(_ length: Int) -> Int { (length + 255) & ~255 }
}
