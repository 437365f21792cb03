import LockboxCore
import LockboxFiles
import LockboxSodium

/// `LBXD`, version, suite, two zero bytes, the key.
enum DeviceKeyRecord {
    static let length = 8 + SecretKey.length

    static func encoded(_ key: SecretKey) -> [UInt8] {
        var record = [UInt8](repeating: 0, count: length)
        record.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            RecordKind.deviceKey.write(to: &writer)
            writer.skip(2)
            key.withBytes { writer.write($0) }
        }
        return record
    }

    static func decode(_ record: UnsafeRawBufferPointer) throws -> SecretKey {
        var reader = ByteReader(record)
        try RecordKind.deviceKey.check(&reader)
        guard reader.skipZeros(2), let key = reader.readBytes(SecretKey.length), reader.remaining == 0 else {
            throw RecordError.malformed("its length is wrong")
        }
        return try SecretKey { $0.copyMemory(from: key) }
    }
}
