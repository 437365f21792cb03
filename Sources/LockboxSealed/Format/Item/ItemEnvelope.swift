import LockboxCore
import LockboxPlatform
import LockboxSodium

/// An item's record: header, metadata box, MACs, value box.
///
/// Each box authenticates every byte before it, and its context contains the store ID, the class, the epoch and
/// the item's ID. So a record opens only as the item it was sealed as, and its parts only together.
enum ItemEnvelope {
    /// The number of bytes that are enough to read the metadata.
    static let maximumMetadataEnd = ItemHeader.length + ItemMetadata.boxLengths.upperBound + ItemMACs.length

    static let maximumLength = maximumMetadataEnd + SealedBox.overhead + ItemValue.maximumLength

    /// The size of a value that fits into a record of this length, whatever its attributes.
    static func maximumValueSize(inRecordOf length: Int) -> Int {
        if length >= maximumLength { return ArchivedValue.maximumSize }
        return ItemValue.maximumSize(in: max(0, length - maximumMetadataEnd - SealedBox.overhead))
    }

    // MARK: Sealing

    /// - Throws: ``RecordError/unknownKey`` if the keyring has no key for the class, ``RecordError/locked(_:)``
    ///   if it is locked.
    static func seal(_ item: StoredItem, id: RecordID, keyring: Keyring) throws(RecordError) -> [UInt8] {
        let accessibility = item.attributes.accessibility
        let valueKey = try keyring.key(.classKey(accessibility), epoch: keyring.epoch)
        let metadataKey = try keyring.key(.metadata, epoch: keyring.epoch)
        let metadata = ItemMetadata(key: item.key, attributes: item.attributes)
        let header = ItemHeader(
            accessibility: accessibility,
            epoch: keyring.epoch,
            metadataLength: metadata.boxLength,
            storeID: keyring.storeID
        )
        let length = header.valueStart + SealedBox.overhead + ItemValue.length(item.value)

        return [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
            let record = UnsafeMutableRawBufferPointer(start: buffer.baseAddress, count: length)
            Sodium.wipe(record)
            var writer = ByteWriter(record)
            header.write(to: &writer)
            writer.skip(SealedBox.prefixLength)
            metadata.write(to: &writer)
            seal(record, from: ItemHeader.length, to: header.metadataEnd, header, id, metadataKey, .metadata)
            ItemMACs(header, id, keyring).write(to: record, item.attributes.origin)

            writer = ByteWriter(record)
            writer.skip(header.valueStart + SealedBox.prefixLength)
            ItemValue.write(item.value, expires: item.attributes.expires, to: &writer)
            seal(record, from: header.valueStart, to: length, header, id, valueKey, .value)
            count = length
        }
    }

    /// Seals the box between two offsets, authenticating everything before it.
    static func seal(
        _ record: UnsafeMutableRawBufferPointer,
        from start: Int,
        to end: Int,
        _ header: ItemHeader,
        _ id: RecordID,
        _ key: SecretKey,
        _ personal: Personal
    ) {
        withContext(header, id) { context in
            SealedBox.seal(
                UnsafeMutableRawBufferPointer(rebasing: record[start..<end]),
                authenticating: UnsafeRawBufferPointer(rebasing: record[..<start]),
                context: context,
                key: key,
                personal: personal
            )
        }
    }

    // MARK: Opening

    /// Opens the value, in place. Returns nil if it has expired at `now`.
    static func openValue(
        _ record: UnsafeMutableRawBufferPointer,
        id: RecordID,
        keyring: Keyring,
        now: Date?
    ) throws -> ArchivedValue? {
        let header = try header(of: record, keyring)
        let plaintext = try open(
            record,
            from: header.valueStart,
            to: record.count,
            header,
            id,
            try keyring.key(.classKey(header.accessibility), epoch: header.epoch),
            .value
        )
        defer { Sodium.wipe(plaintext) }
        return try ItemValue.read(UnsafeRawBufferPointer(plaintext), now: now)
    }

    /// Opens the metadata, in place, after which the value can no longer be opened. `record` may be cut off
    /// anywhere after the MACs.
    ///
    /// The key in the metadata has to be that of the record, as the metadata's box needs no more than the device key.
    static func openMetadata(
        _ record: UnsafeMutableRawBufferPointer,
        id: RecordID,
        keyring: Keyring
    ) throws -> ItemMetadata {
        let header = try header(of: record, keyring)
        let origin = try ItemMACs(header, id, keyring).check(record)
        let plaintext = try open(
            record,
            from: ItemHeader.length,
            to: header.metadataEnd,
            header,
            id,
            try keyring.key(.metadata, epoch: header.epoch),
            .metadata
        )
        defer { Sodium.wipe(plaintext) }
        var metadata = try ItemMetadata(
            UnsafeRawBufferPointer(plaintext),
            accessibility: header.accessibility
        )
        guard keyring.itemID(metadata.key) == id else { throw RecordError.notAuthentic }
        metadata.attributes.origin = origin
        return metadata
    }

    /// Opens the value and the metadata, in place. Returns nil if the item has expired at `now`.
    static func openItem(
        _ record: UnsafeMutableRawBufferPointer,
        id: RecordID,
        keyring: Keyring,
        now: Date?
    ) throws -> StoredItem? {
        // The value's box authenticates the metadata's, so the value must be opened first.
        guard let value = try openValue(record, id: id, keyring: keyring, now: now) else { return nil }
        let metadata = try openMetadata(record, id: id, keyring: keyring)
        return StoredItem(key: metadata.key, value: value, checked: metadata.attributes)
    }

    private static func header(
        of record: UnsafeMutableRawBufferPointer,
        _ keyring: Keyring
    ) throws(RecordError) -> ItemHeader {
        let header = try ItemHeader(UnsafeRawBufferPointer(record))
        guard header.storeID == keyring.storeID else { throw .notAuthentic }
        return header
    }

    private static func open(
        _ record: UnsafeMutableRawBufferPointer,
        from start: Int,
        to end: Int,
        _ header: ItemHeader,
        _ id: RecordID,
        _ key: SecretKey,
        _ personal: Personal
    ) throws(RecordError) -> UnsafeMutableRawBufferPointer {
        guard end - start >= SealedBox.overhead else { throw .malformed("it is cut short") }
        let plaintext = withContext(header, id) { context in
            SealedBox.open(
                UnsafeMutableRawBufferPointer(rebasing: record[start..<end]),
                authenticating: UnsafeRawBufferPointer(rebasing: record[..<start]),
                context: context,
                key: key,
                personal: personal
            )
        }
        guard let plaintext else { throw .notAuthentic }
        return plaintext
    }

    /// Calls `body` with the context: store ID, class, epoch, item ID. 53 bytes.
    private static func withContext<Result>(
        _ header: ItemHeader,
        _ id: RecordID,
        _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(byteCount: 16 + 1 + 4 + RecordID.length, alignment: 8) { context in
            var writer = ByteWriter(context)
            withUnsafeBytes(of: header.storeID) { writer.write($0) }
            writer.write(header.accessibility.number)
            writer.write(header.epoch)
            id.withBytes { writer.write($0) }
            return body(UnsafeRawBufferPointer(context))
        }
    }
}
