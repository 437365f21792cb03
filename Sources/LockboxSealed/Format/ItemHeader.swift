import LockboxCore
import LockboxFiles

/// The 32 bytes in clear at the head of every item.
struct ItemHeader: Equatable {
    static let length = 32

    let accessibility: Accessibility
    /// Which generation of the class key and of the metadata key seals this item.
    let epoch: UInt32
    /// The length of the metadata's box, which follows; the value's box is the rest.
    let metadataLength: Int
    let storeID: StoreID

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

    /// The class and the epoch alone, of a record of which only the header may be there.
    static func seal(_ record: UnsafeMutableRawBufferPointer) -> (Accessibility, UInt32)? {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard (try? RecordKind.item.check(&reader)) != nil,
            let accessibility = reader.read(UInt8.self).flatMap(Accessibility.init(number:)),
            reader.skipZeros(1), let epoch = reader.read(UInt32.self)
        else { return nil }
        return (accessibility, epoch)
    }

    /// The store alone, as it is named in a record of which only the header may be there.
    static func storeID(_ record: UnsafeMutableRawBufferPointer) -> StoreID? {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard (try? RecordKind.item.check(&reader)) != nil, reader.readBytes(10) != nil else { return nil }
        return reader.readBytes(16)?.loadUnaligned(as: StoreID.self)
    }
}
