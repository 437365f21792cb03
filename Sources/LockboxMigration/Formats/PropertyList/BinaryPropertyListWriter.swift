import LockboxCore
import LockboxPlatform

/// Writes the entries of an XML property list as a binary one, so that keyed archives in either form are read by
/// the same code. Every value becomes an object of its own.
struct BinaryPropertyListWriter {
    private static let referenceSize = 4

    private var output = BinaryPropertyList.magic
    private var offsets: [Int] = []

    static func bytes(of entries: [SourceFile.Entry]) throws(SourceError) -> [UInt8] {
        var writer = BinaryPropertyListWriter()
        var pairs: [PropertyValue.Pair] = []
        for entry in entries {
            pairs.append(PropertyValue.Pair(key: .string(entry.name), value: try entry.value.get()))
        }
        let root = try writer.add(.dictionary(pairs))
        return writer.finished(root)
    }

    private consuming func finished(_ root: Int) -> [UInt8] {
        let table = output.count
        for offset in offsets { append(UInt64(offset), 4) }
        output += [0, 0, 0, 0, 0, 0, 4, UInt8(Self.referenceSize)]
        for number in [offsets.count, root, table] { append(UInt64(number), 8) }
        return output
    }

    /// Writes an object after its contents, and returns its number.
    private mutating func add(_ value: PropertyValue) throws(SourceError) -> Int {
        switch value {
        case .boolean(let value): begin(value ? 0x09 : 0x08)
        case .integer(let number):
            begin(0x13)
            append(UInt64(bitPattern: number), 8)
        case .unsigned(let number):
            begin(0x14)
            append(0, 8)
            append(number, 8)
        case .real(let number):
            begin(0x23)
            append(number.bitPattern, 8)
        case .date(let date):
            begin(0x33)
            append(date.timeIntervalSinceReferenceDate.bitPattern, 8)
        case .data(let data):
            begin(0x40, data.count)
            output += data
        case .string(let text): add(text)
        case .array(let elements):
            let references = try add(elements)
            begin(0xA0, elements.count)
            append(references)
        case .dictionary(let pairs):
            if let uid = try Self.uid(pairs) {
                begin(0x83)
                append(UInt64(uid), 4)
            } else {
                let references = try add(pairs.map(\.key)) + add(pairs.map(\.value))
                begin(0xD0, pairs.count)
                append(references)
            }
        default: throw .malformed("a value is not of a kind that property lists have")
        }
        return offsets.count - 1
    }

    private mutating func add(_ values: [PropertyValue]) throws(SourceError) -> [Int] {
        var references: [Int] = []
        for value in values { references.append(try add(value)) }
        return references
    }

    private mutating func add(_ text: String) {
        if text.utf8.allSatisfy({ $0 < 0x80 }) {
            begin(0x50, text.utf8.count)
            output += text.utf8
        } else {
            let units = Array(text.utf16)
            begin(0x60, units.count)
            for unit in units { append(UInt64(unit), 2) }
        }
    }

    /// XML has no UIDs: `NSKeyedArchiver` writes them as dictionaries.
    private static func uid(_ pairs: [PropertyValue.Pair]) throws(SourceError) -> UInt32? {
        guard pairs.count == 1, pairs[0].key == .string("CF$UID") else { return nil }
        guard case .integer(let number) = pairs[0].value, let uid = UInt32(exactly: number) else {
            throw .malformed("a UID is not a number, or too large")
        }
        return uid
    }

    // MARK: Bytes

    private mutating func begin(_ marker: UInt8) {
        offsets.append(output.count)
        output.append(marker)
    }

    private mutating func begin(_ kind: UInt8, _ count: Int) {
        begin(kind | UInt8(min(count, 15)))
        if count >= 15 {
            output.append(0x12)
            append(UInt64(count), 4)
        }
    }

    private mutating func append(_ references: [Int]) {
        for reference in references { append(UInt64(reference), Self.referenceSize) }
    }

    /// Appends a number in big-endian order.
    private mutating func append(_ number: UInt64, _ size: Int) {
        for index in (0..<size).reversed() { output.append(UInt8(truncatingIfNeeded: number >> (8 * index))) }
    }
}
