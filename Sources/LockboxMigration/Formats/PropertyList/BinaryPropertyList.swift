import LockboxCore
import LockboxPlatform

/// Reads the objects of a binary property list (`bplist00`) on demand, with bounds checks.
///
/// Foundation's reader crashes or hangs on some malformed files.
struct BinaryPropertyList: Undescribed {
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
