import LockboxCore
import LockboxPlatform

/// What `gena` has of an item: everything that the Keychain has no attribute for, and a random revision that makes each
/// write's bytes different from all others.
///
/// Version 1, little-endian: version (1 byte), revision (16), created, modified, expires (doubles, seconds since 2001;
/// infinity: never), size of the value (4), format (1), flags (1: has a label, 2: has a comment), number of searchable
/// attributes (1), then for each in the order of their names' bytes: lengths of name and text (2 and 2), name, text.
struct KeychainMetadata {
    static let version: UInt8 = 1
    private static let hasLabel: UInt8 = 1
    private static let hasComment: UInt8 = 2

    /// The bytes for an item, with a new revision.
    static func bytes(_ attributes: ItemAttributes) -> Data {
        var data = Data([version])
        for _ in 0..<2 { append(UInt64.random(in: .min ... .max), to: &data) }
        for date in [attributes.created, attributes.modified, attributes.expires] {
            append((date?.timeIntervalSinceReferenceDate ?? .infinity).bitPattern, to: &data)
        }
        append(UInt32(attributes.size), to: &data)
        data.append(attributes.format.rawValue)
        data.append(
            (attributes.label == nil ? 0 : hasLabel) | (attributes.comment == nil ? 0 : hasComment)
        )
        data.append(UInt8(attributes.searchable.count))
        let pairs = attributes.searchable.map { (Data($0.utf8), Data($1.utf8)) }
        for (name, text) in pairs.sorted(by: { $0.0.lexicographicallyPrecedes($1.0) }) {
            append(UInt16(name.count), to: &data)
            append(UInt16(text.count), to: &data)
            data.append(name)
            data.append(text)
        }
        return data
    }

    private static func append(_ integer: some FixedWidthInteger, to data: inout Data) {
        withUnsafeBytes(of: integer.littleEndian) { data.append(contentsOf: $0) }
    }

    /// Reads an item's attributes.
    ///
    /// - Parameters:
    ///   - attributes: The item as the Keychain returns it.
    ///   - record: The item in a few words, for errors.
    static func attributes(_ attributes: KeychainCalls.Attributes, _ record: String) throws(LockboxError)
        -> ItemAttributes
    {
        let malformed = LockboxError.corrupt(record: record, reason: "its metadata is not well-formed")
        guard let bytes = attributes[KeychainName.attrGeneric]?.data, let version = bytes.first else {
            throw malformed
        }
        guard version == Self.version else {
            throw .unsupportedVersion(record: record, version: Int(version))
        }
        guard let accessibility = attributes[KeychainName.attrAccessible]?.text.flatMap(Accessibility.init)
        else { throw .corrupt(record: record, reason: "its class is not known") }
        var reader = Reader(bytes: bytes.dropFirst(17))
        guard let created = reader.date(), let modified = reader.date(), let expires = reader.date(),
            let size = reader.integer(UInt32.self), let format = reader.integer(UInt8.self),
            let flags = reader.integer(UInt8.self), flags & ~(hasLabel | hasComment) == 0,
            let searchable = reader.searchable(), reader.bytes.isEmpty
        else { throw malformed }
        func text(_ name: String, _ flag: UInt8) -> String? {
            flags & flag == 0 ? nil : attributes[name]?.text ?? ""
        }
        do {
            return try ItemAttributes(
                accessibility: accessibility,
                created: Date(timeIntervalSinceReferenceDate: created),
                modified: Date(timeIntervalSinceReferenceDate: modified),
                expires: expires == .infinity ? nil : Date(timeIntervalSinceReferenceDate: expires),
                label: text(KeychainName.attrLabel, hasLabel),
                comment: text(KeychainName.attrComment, hasComment),
                searchable: searchable,
                size: Int(size),
                format: ValueFormat(rawValue: format)
            )
        } catch { throw malformed }
    }

    private struct Reader {
        var bytes: Data

        mutating func take(_ count: Int) -> Data? {
            guard bytes.count >= count else { return nil }
            defer { bytes = bytes.dropFirst(count) }
            return bytes.prefix(count)
        }

        mutating func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
            take(MemoryLayout<Integer>.size)?.reversed().reduce(0) { $0 << 8 | Integer($1) }
        }

        mutating func date() -> Double? { integer(UInt64.self).map(Double.init(bitPattern:)) }

        mutating func searchable() -> [String: String]? {
            guard let count = integer(UInt8.self) else { return nil }
            var texts: [String: String] = [:]
            for _ in 0..<count {
                guard let nameLength = integer(UInt16.self), let textLength = integer(UInt16.self),
                    let name = take(Int(nameLength)), let text = take(Int(textLength)),
                    let name = String(validating: name, as: UTF8.self),
                    let text = String(validating: text, as: UTF8.self),
                    texts.updateValue(text, forKey: name) == nil
                else { return nil }
            }
            return texts
        }
    }
}
