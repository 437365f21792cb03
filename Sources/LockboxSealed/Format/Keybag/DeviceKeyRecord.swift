import LockboxCore
import LockboxSodium

/// `LBXD`, version, suite, the number of keys, a zero byte, the keys: one, or, while a keybag is replaced, the next one
/// and the one before.
enum DeviceKeyRecord {
    static let maximumLength = headerLength + maximumKeys * SecretKey.length

    private static let headerLength = 8
    private static let maximumKeys = 2

    static func encoded(_ keys: [SecretKey]) -> [UInt8] {
        var record = [UInt8](repeating: 0, count: headerLength + keys.count * SecretKey.length)
        record.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            RecordKind.deviceKey.write(to: &writer)
            writer.write(UInt8(keys.count))
            writer.skip(1)
            for key in keys { key.withBytes { writer.write($0) } }
        }
        return record
    }

    static func decode(_ record: UnsafeRawBufferPointer) throws -> [SecretKey] {
        var reader = ByteReader(record)
        try RecordKind.deviceKey.check(&reader)
        guard let count = reader.read(UInt8.self), (1...maximumKeys).contains(Int(count)),
            reader.skipZeros(1),
            reader.remaining == Int(count) * SecretKey.length
        else { throw RecordError.malformed("its length is wrong") }
        return try (0..<count).map { _ in
            try SecretKey { $0.copyMemory(from: reader.readBytes(SecretKey.length)!) }
        }
    }
}
