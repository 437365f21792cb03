import LockboxCore

/// The first six bytes of every record: four bytes of magic, then version and suite.
enum RecordKind: UInt32 {
    // As little-endian integers.
    case item = 0x4958_424C  // "LBXI"
    case keybag = 0x4B58_424C  // "LBXK"
    case deviceKey = 0x4458_424C  // "LBXD"
    case backup = 0x4558_424C  // "LBXE"
    case sharedUnlock = 0x5558_424C  // "LBXU"

    private static let version: UInt8 = 1
    /// The cipher suite: XChaCha20-Poly1305-IETF with keyed BLAKE2b, as used by ``SealedBox``. Lower ones were those of
    /// pre-releases, which had no slots, and later no MACs in items and no leftovers in the keybag.
    private var suite: UInt8 {
        switch self {
        case .backup: 1
        case .item, .deviceKey, .sharedUnlock: 2
        case .keybag: 3
        }
    }

    func write(to writer: inout ByteWriter) {
        writer.write(rawValue)
        writer.write(Self.version)
        writer.write(suite)
    }

    func check(_ reader: inout ByteReader) throws(RecordError) {
        guard let magic = reader.read(UInt32.self), let version = reader.read(UInt8.self),
            let suite = reader.read(UInt8.self)
        else { throw .malformed("it is cut short") }
        guard magic == rawValue else { throw .malformed("it does not begin with the expected bytes") }
        guard version == Self.version else { throw .unsupportedVersion(Int(version)) }
        guard suite == self.suite else { throw .unsupportedVersion(Int(suite)) }
    }
}
