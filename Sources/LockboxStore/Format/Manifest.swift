import LockboxCore

/// BLAKE2b-256 of a record's bytes.
typealias RecordHash = RecordID

/// The last epoch that a change of the keys has closed: its keys, and older ones, open what was there then, and nothing else. An
/// attacker with these keys could have sealed the rest.
struct Closing: Hashable, Sendable {
    static let length = 4 + RecordHash.length

    /// 0 if none was closed.
    let epoch: UInt32
    /// The first record of the ``Manifest``, or nil if it lists nothing.
    let manifest: RecordHash?

    static let none = Closing(epoch: 0, manifest: nil)

    func write(to writer: inout ByteWriter) {
        writer.write(epoch)
        writer.write(manifest ?? .zero)
    }
}

extension Closing {
    init?(_ reader: inout ByteReader) {
        guard let epoch = reader.read(UInt32.self), let manifest = reader.readHash() else { return nil }
        self.init(epoch: epoch, manifest: manifest == .zero ? nil : manifest)
    }
}

/// The items of closed epochs that still open, each with the hash of its record.
///
/// It is a chain of records, each of which has the hash of the next one, by which that is found. The keybag has the hash of the
/// first. So nothing in it can be changed, and it needs no key.
struct Manifest: Sendable {
    /// Where its records are. No prefix has this name.
    static let namespace = RecordName.namespaceOfManifests
    /// The length of a record, where the storage takes so many.
    static let maximumLength = 1 << 20

    private static let headerLength = 8 + RecordHash.length
    private static let entryLength = RecordID.length + RecordHash.length

    private(set) var items: [RecordID: RecordHash] = [:]
    /// The hashes of the records that it was read from.
    private(set) var records: [RecordHash] = []

    static func name(_ record: RecordHash) -> RecordName {
        RecordName(namespace: namespace, name: record.name)
    }

    func lists(_ id: RecordID, _ hash: RecordHash) -> Bool { items[id] == hash }

    mutating func add(_ id: RecordID, _ hash: RecordHash) { items[id] = hash }

    /// Returns the records, the first one last: each is written before the one that names it.
    func encoded(maximumLength: Int) -> [(hash: RecordHash, bytes: [UInt8])] {
        let sorted = items.sorted { $0.key < $1.key }
        let count = (min(maximumLength, Self.maximumLength) - Self.headerLength) / Self.entryLength
        var records: [(hash: RecordHash, bytes: [UInt8])] = []
        for start in stride(from: 0, to: sorted.count, by: count).reversed() {
            let bytes = Self.record(sorted[start...].prefix(count), before: records.last?.hash)
            records.append((bytes.withUnsafeBytes(RecordHash.init(hashing:)), bytes))
        }
        return records
    }

    private static func record(
        _ items: ArraySlice<(key: RecordID, value: RecordHash)>,
        before next: RecordHash?
    ) -> [UInt8] {
        var record = [UInt8](repeating: 0, count: headerLength + items.count * entryLength)
        record.withUnsafeMutableBytes { record in
            var writer = ByteWriter(record)
            RecordKind.manifest.write(to: &writer)
            writer.skip(2)
            writer.write(next ?? .zero)
            for (id, hash) in items {
                writer.write(id)
                writer.write(hash)
            }
        }
        return record
    }

    /// Adds what a record lists. Returns the hash of the next one, or nil if it is the last.
    mutating func read(_ record: UnsafeRawBufferPointer, _ hash: RecordHash) throws(RecordError)
        -> RecordHash?
    {
        guard RecordHash(hashing: record) == hash else { throw .notAuthentic }
        var reader = ByteReader(record)
        try RecordKind.manifest.check(&reader)
        guard reader.skipZeros(2), let next = reader.readHash(),
            reader.remaining.isMultiple(of: Self.entryLength)
        else { throw .malformed("its length is wrong") }
        while let id = reader.readHash(), let item = reader.readHash() { items[id] = item }
        records.append(hash)
        return next == .zero ? nil : next
    }
}

extension RecordID {
    fileprivate static let zero = RecordID { _ in }

    /// The hash of bytes.
    init(hashing bytes: UnsafeRawBufferPointer) { self.init { Sodium.hash(bytes, into: $0) } }
}

extension ByteReader {
    fileprivate mutating func readHash() -> RecordHash? {
        readBytes(RecordHash.length).map { bytes in RecordHash { $0.copyMemory(from: bytes) } }
    }
}
