import LockboxCore

/// An item's first 32 bytes, which are not encrypted.
struct ItemHeader: Equatable {
    static let length = 32

    let accessibility: Accessibility
    /// The epoch of the class key and the metadata key that seal this item.
    let epoch: UInt32
    /// The length of the metadata box, which follows the header. The MACs and the value box come after it.
    let metadataLength: Int
    let storeID: StoreID

    /// Where the MACs begin, which authenticate everything before them.
    var metadataEnd: Int { Self.length + metadataLength }

    var valueStart: Int { metadataEnd + ItemMACs.length }

    func write(to writer: inout ByteWriter) {
        RecordKind.item.write(to: &writer)
        writer.write(accessibility.number)
        writer.skip(1)
        writer.write(epoch)
        writer.write(UInt32(metadataLength))
        withUnsafeBytes(of: storeID) { writer.write($0) }
    }
}

extension ItemHeader {
    init(_ record: UnsafeRawBufferPointer) throws(RecordError) {
        var reader = ByteReader(record)
        try RecordKind.item.check(&reader)
        guard let accessibility = reader.read(UInt8.self).flatMap(Accessibility.init(number:)),
            reader.skipZeros(1), let epoch = reader.read(UInt32.self),
            let metadataLength = reader.read(UInt32.self).map(Int.init),
            let storeID = reader.readBytes(16)?.loadUnaligned(as: StoreID.self)
        else { throw .malformed("its header is not well-formed") }
        guard ItemMetadata.boxLengths.contains(metadataLength), reader.remaining >= metadataLength else {
            throw .malformed("its metadata has an impossible length")
        }
        self.init(
            accessibility: accessibility,
            epoch: epoch,
            metadataLength: metadataLength,
            storeID: storeID
        )
    }

    /// Returns false if a record, of which these are the first bytes, has more metadata.
    static func containsMetadata(_ record: UnsafeMutableRawBufferPointer) -> Bool {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard reader.readBytes(12) != nil, let length = reader.read(UInt32.self) else { return true }
        return record.count >= ItemHeader.length + Int(length) + ItemMACs.length
            || Int(length) > ItemMetadata.boxLengths.upperBound
    }

    /// Returns the class and the epoch of a record that may be cut off after the header.
    static func seal(_ record: UnsafeMutableRawBufferPointer) -> (Accessibility, UInt32)? {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard (try? RecordKind.item.check(&reader)) != nil,
            let accessibility = reader.read(UInt8.self).flatMap(Accessibility.init(number:)),
            reader.skipZeros(1), let epoch = reader.read(UInt32.self)
        else { return nil }
        return (accessibility, epoch)
    }

    /// Returns the store ID of a record that may be cut off after the header.
    static func storeID(_ record: UnsafeMutableRawBufferPointer) -> StoreID? {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard (try? RecordKind.item.check(&reader)) != nil, reader.readBytes(10) != nil else { return nil }
        return reader.readBytes(16)?.loadUnaligned(as: StoreID.self)
    }
}
