@_spi(Extensions) import LockboxCore

/// A keyed hash of 32 bytes that identifies a prefix, or a prefix and a key.
///
/// Its file name is in lower-case base32 (RFC 4648) without padding: always 52 characters, safe on
/// every file system.
struct RecordID: Hashable, Comparable, Sendable {
    private let words: SIMD4<UInt64>

    static let length = 32
    static let nameLength = 52

    init(_ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        var words = SIMD4<UInt64>()
        Swift.withUnsafeMutableBytes(of: &words, fill)
        self.words = words
    }

    /// Decodes a file name. Returns nil if it does not encode an ID.
    init?(name: String) {
        guard name.utf8.count == Self.nameLength else { return nil }
        // `count` of the `bits` are not in a byte yet.
        var (bits, count, all) = (UInt64(0), UInt64(0), UInt64(0))
        var name = name
        self.init { bytes in
            var output = 0
            name.withUTF8 { characters in
                for character in UnsafeRawBufferPointer(characters) {
                    let digit = Self.digit(character)
                    all |= digit
                    bits = bits << 5 | digit
                    count += 5
                    guard count >= 8 else { continue }
                    count -= 8
                    bytes[output] = UInt8(truncatingIfNeeded: bits >> count)
                    output += 1
                }
            }
        }
        // The last character has four bits to spare.
        guard all < 32, bits & 15 == 0 else { return nil }
    }

    var name: String {
        withBytes { bytes in
            String(unsafeUninitializedCapacity: Self.nameLength) { output in
                // `count` of the `bits` are in no character yet.
                var (bits, count, next) = (UInt64(0), UInt64(0), 0)
                for byte in bytes {
                    bits = bits << 8 | UInt64(byte)
                    count += 8
                    while count >= 5 {
                        count -= 5
                        output[next] = Self.character(bits >> count)
                        next += 1
                    }
                }
                output[next] = Self.character(bits << 4)  // one bit is left, and four are zero
                return Self.nameLength
            }
        }
    }

    static func < (a: Self, b: Self) -> Bool {
        a.withBytes { a in b.withBytes { a.lexicographicallyPrecedes($0) } }
    }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withUnsafeBytes(of: words, body)
    }

    private static func character(_ bits: UInt64) -> UInt8 {
        let digit = UInt8(truncatingIfNeeded: bits & 31)
        return digit < 26 ? UInt8(ascii: "a") + digit : UInt8(ascii: "2") + digit - 26
    }

    /// Returns 32 or more if it is none. Without branches, which could not be predicted.
    private static func digit(_ character: UInt8) -> UInt64 {
        let (letter, number) = (character &- UInt8(ascii: "a"), character &- UInt8(ascii: "2"))
        return UInt64(letter < 26 ? letter : number < 6 ? number + 26 : 32)
    }
}

extension SIMD16<UInt8> {
    static func random() -> Self {
        var id = Self()
        withUnsafeMutableBytes(of: &id) { Sodium.fillRandom($0) }
        return id
    }

    /// The ID of a store or a slot, as users see it.
    var hexadecimal: String { bytes.hexadecimal }

    var bytes: [UInt8] { withUnsafeBytes(of: self, Array.init) }

    /// In base32, like a ``RecordID`` that begins with it.
    var name: String { RecordID { $0.copyBytes(from: bytes) }.name }
}

/// The first six bytes of every record: four bytes of magic, then version and suite.
enum RecordKind: UInt32 {
    // Little-endian integers.
    case item = 0x4958_424C  // "LBXI"
    case keybag = 0x4B58_424C  // "LBXK"
    case deviceKey = 0x4458_424C  // "LBXD"
    case sharedUnlock = 0x5558_424C  // "LBXU"
    case manifest = 0x4D58_424C  // "LBXM"

    private static let version: UInt8 = 1
    /// The cipher suite: XChaCha20-Poly1305-IETF with keyed BLAKE2b, as used by ``SealedBox``. Lower ones were those of
    /// pre-releases, which had no slots, and later no MACs in items and no manifest and no
    /// signature in the keybag.
    private var suite: UInt8 {
        switch self {
        case .manifest: 1
        case .item, .deviceKey, .sharedUnlock: 2
        case .keybag: 4
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

/// An error in a record's bytes. The backend converts it to a ``LockboxError`` with the record's name.
enum RecordError: Error, Equatable {
    case malformed(String)
    case notAuthentic
    case wrongDeviceKey
    case unsupportedVersion(Int)
    /// The keyring does not contain the class key that the record names. The record may be newer than the
    /// keyring.
    case unknownKey
    /// Like ``unknownKey``, but the epoch has not begun in this keyring.
    case laterEpoch
    /// The class key is locked.
    case locked(Accessibility)
    /// It is of a closed epoch, and the manifest does not list these bytes.
    case notListed

    /// Whether a newer keyring may open the record.
    var isOfKeyring: Bool {
        switch self {
        case .unknownKey, .laterEpoch, .locked, .notListed: true
        default: false
        }
    }
}

extension RecordError {
    /// Returns the public error about a record.
    func lockboxError(_ record: LockboxError.Subject) -> LockboxError {
        switch self {
        case .malformed(let reason): .corrupt(record: record, reason: reason)
        case .notAuthentic: .authenticationFailed(record: record)
        case .wrongDeviceKey: .deviceKeyMismatch(source: record.description)
        case .unsupportedVersion(let version): .unsupportedVersion(record: record, version: version)
        case .unknownKey: .corrupt(record: record, reason: "the keybag does not contain its key")
        case .laterEpoch:
            .rolledBack(
                record: record,
                reason:
                    "it names keys that are newer than the keybag's, so an older keybag was put back, or the item is damaged and "
                    + "can only be removed"
            )
        case .locked(let accessibility): .interactionNotAllowed(accessibility)
        case .notListed:
            .corrupt(
                record: record,
                reason:
                    "it is sealed with former keys, and was not there, or could not be read, when they were replaced, so "
                    + "another owner of those keys may have made it; if you know that it is yours, accept it by name: acceptItem(record:), "
                    + "or lockbox rotate --accept"
            )
        }
    }
}
