import LockboxCore
import LockboxSodium

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
        UnsafeMutableRawBufferPointer(rebasing: buffer[offset..<(offset + bytes.count)]).copyMemory(
            from: bytes
        )
        offset += bytes.count
    }

    mutating func write(_ text: String) {
        var text = text
        text.withUTF8 { write(UnsafeRawBufferPointer($0)) }
    }

    mutating func skip(_ count: Int) { offset += count }
}
