import LockboxPlatform

/// Reads the objects of a binary property list (`bplist00`) on demand, with bounds checks.
///
/// Foundation's reader crashes or hangs on some malformed files.
struct BinaryPropertyList: Unprinted {
    static let maximumSize = 16 << 20

    /// An object's index in the offset table.
    typealias Reference = Int

    /// An object. A container holds references to its contents.
    enum Object {
        case null
        case boolean(Bool)
        case integer(Int64)
        case unsigned(UInt64)
        case real(Double)
        case date(Date)
        case data(Data)
        case string(String)
        case uid(Int)
        case array([Reference])
        case set([Reference])
        case dictionary(keys: [Reference], values: [Reference])
    }

    /// An object's position: marker and count, then the payload.
    struct Extent {
        let marker: UInt8
        let count: Int
        let start: Int
        let payload: Range<Int>
        var length: Int { payload.upperBound - start }
        var isText: Bool { [0x5, 0x6].contains(marker >> 4) }
        var isDictionary: Bool { marker >> 4 == 0xD }
        var isContainer: Bool { [0xA, 0xC, 0xD].contains(marker >> 4) }
    }

    static let magic = Array("bplist00".utf8)

    let bytes: [UInt8]
    let count: Int
    let root: Reference
    let referenceSize: Int
    private let offsetSize: Int
    private let tableStart: Int

    /// Checks that all objects are complete and do not overlap, so that reading each of them once takes no more
    /// memory than the file.
    init(_ bytes: [UInt8]) throws(SourceError) {
        guard bytes.count <= Self.maximumSize else { throw .tooLarge }
        guard bytes.starts(with: Self.magic) else {
            throw .malformed("it is not a binary property list of version 00")
        }
        let end = bytes.count - 32
        guard end > Self.magic.count else { throw .malformed("it is cut short") }
        self.bytes = bytes
        (offsetSize, referenceSize) = (Int(bytes[end + 6]), Int(bytes[end + 7]))
        guard (1...8).contains(offsetSize), (1...8).contains(referenceSize),
            let count = Int(exactly: Self.integer(bytes, end + 8, 8)),
            let root = Int(exactly: Self.integer(bytes, end + 16, 8)),
            let tableStart = Int(exactly: Self.integer(bytes, end + 24, 8)),
            root < count, (Self.magic.count..<end).contains(tableStart),
            count <= end / offsetSize, tableStart + count * offsetSize == end
        else { throw .malformed("its trailer is invalid") }
        (self.count, self.root, self.tableStart) = (count, root, tableStart)
        var length = 0
        for reference in 0..<count { length += try extent(of: reference).length }
        guard length <= tableStart - Self.magic.count else { throw .malformed("its objects overlap") }
    }

    func extent(of reference: Reference) throws(SourceError) -> Extent {
        let entry = tableStart + reference * offsetSize
        guard let start = Int(exactly: Self.integer(bytes, entry, offsetSize)),
            (Self.magic.count..<tableStart).contains(start)
        else { throw .malformed("an object has an invalid offset") }
        let marker = bytes[start]
        var (count, payload) = (Int(marker & 0xF), start + 1)
        let unit: Int
        switch (marker >> 4, count) {
        case (0x0, 0), (0x0, 8), (0x0, 9): (count, unit) = (0, 0)
        case (0x1, 0...4), (0x2, 2...3), (0x3, 3): (count, unit) = (1 << count, 1)
        case (0x8, _): (count, unit) = (count + 1, 1)
        case (0x4, _), (0x5, _): unit = 1
        case (0x6, _): unit = 2
        case (0xA, _), (0xC, _): unit = referenceSize
        case (0xD, _): unit = 2 * referenceSize
        default: throw .malformed("an object has an unknown type")
        }
        if marker & 0xF == 0xF, marker >> 4 != 0x8 {
            guard payload < tableStart, bytes[payload] & 0xFC == 0x10 else { throw Self.cutShort }
            let size = 1 << Int(bytes[payload] & 3)
            guard size < tableStart - payload else { throw Self.cutShort }
            guard let long = Int(exactly: Self.integer(bytes, payload + 1, size)) else { throw Self.cutShort }
            count = long
            payload += 1 + size
        }
        guard unit == 0 || count <= (tableStart - payload) / unit else { throw Self.cutShort }
        return Extent(marker: marker, count: count, start: start, payload: payload..<(payload + count * unit))
    }

    func object(_ reference: Reference) throws(SourceError) -> Object {
        let extent = try extent(of: reference)
        let payload = bytes[extent.payload]
        switch extent.marker >> 4 {
        case 0x0: return extent.marker == 0 ? .null : .boolean(extent.marker == 9)
        case 0x1: return try Self.number(payload)
        case 0x2 where payload.count == 4:
            return .real(Double(Float(bitPattern: UInt32(Self.integer(payload)))))
        case 0x2: return .real(Double(bitPattern: Self.integer(payload)))
        case 0x3:
            return .date(Date(timeIntervalSinceReferenceDate: Double(bitPattern: Self.integer(payload))))
        case 0x4: return .data(Data(payload))
        case 0x5, 0x6: return .string(try Self.text(payload, isASCII: extent.marker >> 4 == 0x5))
        case 0x8: return .uid(try Self.uid(payload))
        case 0xA: return .array(try references(payload))
        case 0xC: return .set(try references(payload))
        default:
            let references = try references(payload)
            return .dictionary(
                keys: Array(references[..<extent.count]),
                values: Array(references[extent.count...])
            )
        }
    }

    /// Returns the references of a container, keys first.
    func references(_ payload: ArraySlice<UInt8>) throws(SourceError) -> [Reference] {
        var references: [Reference] = []
        references.reserveCapacity(payload.count / referenceSize)
        for start in stride(from: payload.startIndex, to: payload.endIndex, by: referenceSize) {
            guard let reference = Int(exactly: Self.integer(bytes, start, referenceSize)),
                reference < count
            else { throw .malformed("an object refers to a missing object") }
            references.append(reference)
        }
        return references
    }

    /// Returns an object with all its contents.
    func value(_ reference: Reference, _ unfolding: Unfolding) throws(SourceError) -> PropertyValue {
        let length = try extent(of: reference).length
        return try unfolding.value(of: reference, length: length) { () throws(SourceError) in
            switch try object(reference) {
            case .null: return .null
            case .boolean(let value): return .boolean(value)
            case .integer(let value): return .integer(value)
            case .unsigned(let value): return .unsigned(value)
            case .real(let value): return .real(value)
            case .date(let value): return .date(value)
            case .data(let value): return .data(value)
            case .string(let value): return .string(value)
            case .uid: throw .unsupported("it contains a UID of a keyed archive")
            case .array(let elements): return .array(try values(elements, unfolding))
            case .set(let elements): return .set(try values(elements, unfolding))
            case .dictionary(let keys, let values):
                return try .dictionary(
                    keys: self.values(keys, unfolding),
                    values: self.values(values, unfolding)
                )
            }
        }
    }

    private func values(_ references: [Reference], _ unfolding: Unfolding) throws(SourceError)
        -> [PropertyValue]
    {
        var values: [PropertyValue] = []
        for reference in references { values.append(try value(reference, unfolding)) }
        return values
    }

    /// Returns the object's UID, if it is one.
    func uid(_ reference: Reference) throws(SourceError) -> Int? {
        let extent = try extent(of: reference)
        return extent.marker >> 4 == 0x8 ? try Self.uid(bytes[extent.payload]) : nil
    }

    // MARK: Payloads, all big-endian

    private static let cutShort = SourceError.malformed("an object is cut short")

    private static func integer(_ payload: ArraySlice<UInt8>) -> UInt64 {
        payload.reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static func integer(_ bytes: [UInt8], _ start: Int, _ size: Int) -> UInt64 {
        var integer: UInt64 = 0
        var index = start
        while index < start + size {
            integer = integer << 8 | UInt64(bytes[index])
            index += 1
        }
        return integer
    }

    /// Integers of up to four bytes are unsigned, those of eight bytes signed. Sixteen bytes are used for
    /// values that do not fit into an Int64; Foundation reads only their lower half.
    private static func number(_ payload: ArraySlice<UInt8>) throws(SourceError) -> Object {
        let value = integer(payload.suffix(8))
        if payload.count == 8 { return .integer(Int64(bitPattern: value)) }
        guard payload.dropLast(8).allSatisfy({ $0 == 0 }) else {
            throw .unsupported("an integer has more than 64 bits")
        }
        return Int64(exactly: value).map(Object.integer) ?? .unsigned(value)
    }

    private static func uid(_ payload: ArraySlice<UInt8>) throws(SourceError) -> Int {
        guard payload.dropLast(4).allSatisfy({ $0 == 0 }) else { throw .malformed("a UID is too large") }
        return Int(integer(payload.suffix(4)))
    }

    private static func text(_ payload: ArraySlice<UInt8>, isASCII: Bool) throws(SourceError) -> String {
        if isASCII {
            guard let text = String(validating: payload, as: Unicode.ASCII.self) else {
                throw .malformed("an ASCII string contains other characters")
            }
            return text
        }
        let units = stride(from: payload.startIndex, to: payload.endIndex, by: 2).map {
            UInt16(payload[$0]) << 8 | UInt16(payload[$0 + 1])
        }
        guard let text = String(validating: units, as: UTF16.self) else {
            throw .unsupported("a string has an unpaired surrogate")
        }
        return text
    }
}

extension BinaryPropertyList {
    /// Returns the entries of the top-level dictionary.
    func entries() throws(SourceError) -> [(name: String, value: Reference)] {
        guard case .dictionary(let keys, let values) = try object(root) else {
            throw .unsupported("its top-level object is not a dictionary")
        }
        var entries: [(name: String, value: Reference)] = []
        for (key, value) in zip(keys, values) {
            guard case .string(let name) = try object(key) else { throw .malformed("a key is not a string") }
            entries.append((name, value))
        }
        return entries
    }

    /// Returns the property list without some entries of its top-level dictionary. The bytes of all other
    /// objects stay the same, except for the numbers by which objects refer to each other.
    func removing(_ names: Set<String>) throws(SourceError) -> [UInt8] {
        let entries = try entries()
        let kept = entries.indices.filter { !names.contains(entries[$0].name) }
        var order = [root]
        var numbers = [root: 0]
        var position = 0
        while position < order.count {
            for child in try children(order[position], kept: kept) where numbers[child] == nil {
                numbers[child] = order.count
                order.append(child)
            }
            position += 1
        }
        var output = Self.magic
        let size = Self.size(of: order.count)
        var offsets: [Int] = []
        for reference in order {
            offsets.append(output.count)
            try output += header(reference, kept: kept)
            for child in try children(reference, kept: kept) { output += Self.bytes(numbers[child]!, size) }
        }
        let offsetSize = Self.size(of: output.count)
        let tableStart = output.count
        for offset in offsets { output += Self.bytes(offset, offsetSize) }
        output += [0, 0, 0, 0, 0, 0, UInt8(offsetSize), UInt8(size)]
        return output + Self.bytes(order.count, 8) + Self.bytes(0, 8) + Self.bytes(tableStart, 8)
    }

    private func children(_ reference: Reference, kept: [Int]) throws(SourceError) -> [Reference] {
        let extent = try extent(of: reference)
        guard extent.isContainer else { return [] }
        let all = try references(bytes[extent.payload])
        return reference == root ? kept.map { all[$0] } + kept.map { all[extent.count + $0] } : all
    }

    /// Returns an object's bytes without its references.
    private func header(_ reference: Reference, kept: [Int]) throws(SourceError) -> [UInt8] {
        let extent = try extent(of: reference)
        if reference == root {
            return kept.count < 15
                ? [0xD0 | UInt8(kept.count)] : [0xDF, 0x13] + Self.bytes(kept.count, 8)
        }
        return Array(
            bytes[extent.start..<(extent.isContainer ? extent.payload.lowerBound : extent.payload.upperBound)]
        )
    }

    /// Returns the number of bytes for each number up to and including `count`, as Foundation computes it.
    private static func size(of count: Int) -> Int { count < 1 << 8 ? 1 : count < 1 << 16 ? 2 : 4 }

    private static func bytes(_ number: Int, _ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: number >> (8 * (size - 1 - $0))) }
    }
}

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
