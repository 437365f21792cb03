import LockboxCore
import LockboxSodium

/// A keybag's first 64 bytes, which are not encrypted, and the box under the device key that follows them.
struct KeybagHeader {
    static let length = 64
    static let maximumRecordLength =
        length + SealedBox.overhead + fixedLength + Keybag.maximumKeys * (keyIDLength + SecretKey.length)
        + Leftover.maximumCount * Leftover.length
        + Keybag.maximumSlots * (KeybagSlot.maximumLength + 2 * SecretKey.length)
        + 2 * SealedBox.overhead + (1 + Keybag.lineageCount) * SecretKey.length

    /// Epoch, number of slots, number of keys, unlock key, last retired epoch, number of leftovers.
    static let fixedLength = 8 + SecretKey.length + 8
    static let keyIDLength = 8

    private static let checkOffset = 32

    let generation: UInt64
    let storeID: StoreID

    init(generation: UInt64, storeID: StoreID) {
        self.generation = generation
        self.storeID = storeID
    }

    init(_ record: UnsafeRawBufferPointer) throws(RecordError) {
        var reader = ByteReader(record)
        try RecordKind.keybag.check(&reader)
        guard reader.skipZeros(2), let generation = reader.read(UInt64.self),
            let storeID = reader.readBytes(16)?.loadUnaligned(as: StoreID.self)
        else { throw .malformed("its header is not well-formed") }
        guard record.count >= Self.length + SealedBox.overhead + Self.fixedLength,
            record.count <= Self.maximumRecordLength
        else { throw .malformed("its length of \(record.count) bytes is impossible") }
        self.init(generation: generation, storeID: storeID)
    }

    func write(to writer: inout ByteWriter) {
        RecordKind.keybag.write(to: &writer)
        writer.skip(2)
        writer.write(generation)
        withUnsafeBytes(of: storeID) { writer.write($0) }
    }

    // MARK: The box

    /// Seals, in place, a record whose header and plaintext are complete, and fills in the device check.
    static func seal(_ record: UnsafeMutableRawBufferPointer, _ deviceKey: SecretKey) {
        UnsafeMutableRawBufferPointer(rebasing: record[checkOffset..<length]).copyBytes(
            from: check(deviceKey)
        )
        withBinding(record) { data, context in
            SealedBox.seal(
                UnsafeMutableRawBufferPointer(rebasing: record[length...]),
                authenticating: data,
                context: context,
                key: deviceKey,
                personal: .keybag
            )
        }
    }

    /// Opens the box in place. Returns nil if it is not authentic; with another device key it is then unchanged.
    static func openBox(_ record: UnsafeMutableRawBufferPointer, _ deviceKey: SecretKey)
        -> UnsafeMutableRawBufferPointer?
    {
        withBinding(record) { data, context in
            SealedBox.open(
                UnsafeMutableRawBufferPointer(rebasing: record[length...]),
                authenticating: data,
                context: context,
                key: deviceKey,
                personal: .keybag
            )
        }
    }

    static func check(_ record: UnsafeMutableRawBufferPointer, isOf deviceKey: SecretKey) -> Bool {
        check(deviceKey).withUnsafeBytes {
            Sodium.isEqual(
                UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(record)[checkOffset..<length]),
                $0
            )
        }
    }

    private static func check(_ deviceKey: SecretKey) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: length - checkOffset)
        output.withUnsafeMutableBytes {
            Sodium.hash(
                UnsafeRawBufferPointer(start: nil, count: 0),
                key: deviceKey,
                personal: .deviceCheck,
                into: $0
            )
        }
        return output
    }

    private static func withBinding<Result>(
        _ record: UnsafeMutableRawBufferPointer,
        _ body: (_ data: UnsafeRawBufferPointer, _ context: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let header = bytes(of: record)
        return body(header, UnsafeRawBufferPointer(rebasing: header[16..<32]))
    }

    /// What the box authenticates: everything before the device check.
    static func bytes(of record: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(record)[..<checkOffset])
    }

    /// The additional data of an inner box: a hash of the header and of all plaintext before it.
    static func digest(_ header: UnsafeRawBufferPointer, _ plaintext: Slice<UnsafeRawBufferPointer>)
        -> [UInt8]
    {
        withUnsafeTemporaryAllocation(byteCount: header.count + plaintext.count, alignment: 8) { input in
            defer { Sodium.wipe(input) }
            input.copyBytes(from: header)
            UnsafeMutableRawBufferPointer(rebasing: input[header.count...]).copyBytes(from: plaintext)
            var output = [UInt8](repeating: 0, count: 32)
            output.withUnsafeMutableBytes { Sodium.hash(UnsafeRawBufferPointer(input), into: $0) }
            return output
        }
    }
}
