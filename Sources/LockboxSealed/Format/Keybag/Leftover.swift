import LockboxCore

/// A record that may still be sealed with retired keys, because it could not be resealed, or a namespace of such records.
/// Nothing else opens with them: whoever has got hold of them could have sealed it.
struct Leftover: Hashable, Sendable {
    static let length = idLength + 8
    static let maximumCount = 16_384

    private static let idLength = 16

    /// The first bytes of the ID of the record, or of the prefix whose namespace it is.
    let id: SIMD16<UInt8>
    /// The epochs whose keys it may use.
    let epochs: ClosedRange<UInt32>

    init(_ id: RecordID, _ epochs: ClosedRange<UInt32>) {
        self.id = Self.start(of: id)
        self.epochs = epochs
    }

    static func start(of id: RecordID) -> SIMD16<UInt8> {
        id.withBytes { $0.loadUnaligned(as: SIMD16<UInt8>.self) }
    }

    init(_ reader: inout ByteReader) throws(RecordError) {
        guard let id = reader.readBytes(Self.idLength), let first = reader.read(UInt32.self),
            let last = reader.read(UInt32.self), first <= last
        else { throw .malformed("one of its leftovers is not well-formed") }
        self.id = id.loadUnaligned(as: SIMD16<UInt8>.self)
        epochs = first...last
    }

    func write(to writer: inout ByteWriter) {
        withUnsafeBytes(of: id) { writer.write($0) }
        writer.write(epochs.lowerBound)
        writer.write(epochs.upperBound)
    }
}
