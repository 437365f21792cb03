import LockboxCore
import LockboxPlatform

/// Reads fields in order. Returns nil at the end, and for malformed fields.
struct ByteReader {
    private let buffer: UnsafeRawBufferPointer
    private(set) var offset = 0

    init(_ buffer: UnsafeRawBufferPointer) { self.buffer = buffer }

    var remaining: Int { buffer.count - offset }

    mutating func read<Integer: FixedWidthInteger>(_ type: Integer.Type = Integer.self) -> Integer? {
        guard remaining >= MemoryLayout<Integer>.size else { return nil }
        defer { offset += MemoryLayout<Integer>.size }
        return Integer(littleEndian: buffer.loadUnaligned(fromByteOffset: offset, as: type))
    }

    mutating func readDouble() -> Double? { read(UInt64.self).map(Double.init(bitPattern:)) }

    mutating func readBytes(_ count: Int) -> UnsafeRawBufferPointer? {
        guard count >= 0, remaining >= count else { return nil }
        defer { offset += count }
        return buffer.part(offset..<(offset + count))
    }

    mutating func readID() -> SIMD16<UInt8>? { readBytes(16)?.loadUnaligned(as: SIMD16<UInt8>.self) }

    mutating func readText(_ count: Int) -> String? {
        guard let bytes = readBytes(count) else { return nil }
        // Most texts are ASCII, and validating takes three times as long.
        let isASCII = bytes.allSatisfy { $0 < 0x80 }
        return isASCII ? String(decoding: bytes, as: UTF8.self) : String(validating: bytes, as: UTF8.self)
    }

    /// Returns whether the next `count` bytes exist and are zero.
    mutating func skipZeros(_ count: Int) -> Bool {
        guard let bytes = readBytes(count) else { return false }
        guard let start = bytes.baseAddress, let first = bytes.first else { return true }
        return first == 0 && memcmp(start, start + 1, bytes.count - 1) == 0
    }
}

extension UnsafeRawBufferPointer {
    /// Returns some of the bytes, counted from 0.
    package func part(_ range: some RangeExpression<Int>) -> UnsafeRawBufferPointer {
        .init(rebasing: self[range])
    }

    /// For functions of C. There must be bytes.
    var start: UnsafePointer<UInt8> { baseAddress!.assumingMemoryBound(to: UInt8.self) }
}

extension UnsafeMutableRawBufferPointer {
    /// Returns some of the bytes, counted from 0.
    package func part(_ range: some RangeExpression<Int>) -> UnsafeMutableRawBufferPointer {
        .init(rebasing: self[range])
    }

    /// For functions of C. There must be bytes.
    var start: UnsafeMutablePointer<UInt8> { baseAddress!.assumingMemoryBound(to: UInt8.self) }
}

/// Writes a record's fields in order. Integers are little-endian.
struct ByteWriter {
    private let buffer: UnsafeMutableRawBufferPointer
    private(set) var offset = 0

    /// `buffer` must be zeroed and large enough for all fields.
    init(_ buffer: UnsafeMutableRawBufferPointer) { self.buffer = buffer }

    mutating func write<Integer: FixedWidthInteger>(_ value: Integer) {
        buffer.storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
        offset += MemoryLayout<Integer>.size
    }

    mutating func write(_ value: Double) { write(value.bitPattern) }

    mutating func write(_ bytes: UnsafeRawBufferPointer) {
        buffer.part(offset...).copyMemory(from: bytes)
        offset += bytes.count
    }

    mutating func write(_ bytes: [UInt8]) { bytes.withUnsafeBytes { write($0) } }

    mutating func write(_ key: SecretKey) { key.withBytes { write($0) } }

    mutating func write(_ id: StoreID) { withUnsafeBytes(of: id) { write($0) } }

    mutating func write(_ id: RecordID) { id.withBytes { write($0) } }

    mutating func write(_ text: String) {
        var text = text
        text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
    }

    mutating func skip(_ count: Int) { offset += count }
}
