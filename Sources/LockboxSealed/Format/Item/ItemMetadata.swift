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

    init(key: ItemKey, attributes: ItemAttributes) {
        self.key = key
        self.attributes = attributes
    }

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

    private static let malformed = RecordError.malformed("its metadata is not well-formed")
}
