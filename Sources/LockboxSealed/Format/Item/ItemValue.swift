import LockboxCore
import LockboxPlatform

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
            let length = reader.read(UInt32.self), let expires = reader.readDouble(),
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
