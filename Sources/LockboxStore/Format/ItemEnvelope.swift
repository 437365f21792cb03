@_spi(Extensions) import LockboxCore
import LockboxPlatform

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
        let valueKey = try keyring.sealingKey(accessibility)
        let metadataKey = try keyring.key(.metadata, epoch: keyring.epoch)
        let metadata = ItemMetadata(key: item.key, attributes: item.attributes)
        let header = ItemHeader(
            accessibility: accessibility,
            epoch: keyring.epoch,
            metadataLength: metadata.boxLength,
            storeID: keyring.storeID
        )
        let length = header.valueStart + SealedBox.overhead + ItemValue.length(item.value)
        let context = context(header, id)

        return [UInt8](unsafeUninitializedCapacity: length) { buffer, count in
            let record = UnsafeMutableRawBufferPointer(start: buffer.baseAddress, count: length)
            Sodium.wipe(record)
            var writer = ByteWriter(record)
            header.write(to: &writer)
            writer.skip(SealedBox.prefixLength)
            metadata.write(to: &writer)
            let metadataBox = BoxKey(key: metadataKey, personal: .metadata, context: context)
            seal(record, ItemHeader.length..<header.metadataEnd, with: metadataBox)
            ItemMACs(header: header, id: id, keyring: keyring).write(to: record, item.attributes.origin)

            writer = ByteWriter(record)
            writer.skip(header.valueStart + SealedBox.prefixLength)
            ItemValue.write(item.value, expires: item.attributes.expires, to: &writer)
            let valueBox = BoxKey(key: valueKey, personal: .value, context: context)
            seal(record, header.valueStart..<length, with: valueBox)
            count = length
        }
    }

    /// Seals a part of a record, authenticating everything before it.
    static func seal(_ record: UnsafeMutableRawBufferPointer, _ part: Range<Int>, with key: BoxKey) {
        SealedBox.seal(record.part(part), authenticating: Array(record[..<part.lowerBound]), with: key)
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
        let key = try keyring.key(.classKey(header.accessibility), epoch: header.epoch)
        let boxKey = BoxKey(key: key, personal: .value, context: context(header, id))
        let plaintext = try open(record, from: header.valueStart, to: record.count, with: boxKey)
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
        let origin = try ItemMACs(header: header, id: id, keyring: keyring).check(record)
        let key = try keyring.key(.metadata, epoch: header.epoch)
        let boxKey = BoxKey(key: key, personal: .metadata, context: context(header, id))
        let plaintext = try open(record, from: ItemHeader.length, to: header.metadataEnd, with: boxKey)
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
        with key: BoxKey
    ) throws(RecordError) -> UnsafeMutableRawBufferPointer {
        guard end - start >= SealedBox.overhead else { throw .malformed("it is cut short") }
        let box = record.part(start..<end)
        guard let plaintext = SealedBox.open(box, authenticating: Array(record[..<start]), with: key) else {
            throw .notAuthentic
        }
        return plaintext
    }

    /// Store ID, class, epoch, item ID: 53 bytes.
    static func context(_ header: ItemHeader, _ id: RecordID) -> [UInt8] {
        let length = 16 + 1 + 4 + RecordID.length
        return [UInt8](unsafeUninitializedCapacity: length) { context, count in
            var writer = ByteWriter(UnsafeMutableRawBufferPointer(start: context.baseAddress, count: length))
            writer.write(header.storeID)
            writer.write(header.accessibility.number)
            writer.write(header.epoch)
            writer.write(id)
            count = length
        }
    }
}

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
        writer.write(storeID)
    }
}

extension ItemHeader {
    init(_ record: UnsafeRawBufferPointer) throws(RecordError) {
        try self.init(beginning: record)
        guard ItemMetadata.boxLengths.contains(metadataLength), record.count - Self.length >= metadataLength
        else { throw .malformed("its metadata has an impossible length") }
    }

    /// Reads the header of a record that may be cut off after it.
    private init(beginning record: UnsafeRawBufferPointer) throws(RecordError) {
        var reader = ByteReader(record)
        try RecordKind.item.check(&reader)
        guard let accessibility = reader.read(UInt8.self).flatMap(Accessibility.init(number:)),
            reader.skipZeros(1), let epoch = reader.read(UInt32.self),
            let metadataLength = reader.read(UInt32.self).map(Int.init),
            let storeID = reader.readID()
        else { throw .malformed("its header is not well-formed") }
        self.init(
            accessibility: accessibility,
            epoch: epoch,
            metadataLength: metadataLength,
            storeID: storeID
        )
    }

    /// Returns the header of a record that may be cut off after it, or nil if it is not well-formed.
    static func beginning(of record: UnsafeMutableRawBufferPointer) -> ItemHeader? {
        try? ItemHeader(beginning: UnsafeRawBufferPointer(record))
    }

    /// Returns false if a record, of which these are the first bytes, has more metadata.
    static func containsMetadata(_ record: UnsafeMutableRawBufferPointer) -> Bool {
        // A storage may give no more than it was asked for.
        guard let header = beginning(of: record) else { return record.count >= length }
        return record.count >= header.valueStart
            || header.metadataLength > ItemMetadata.boxLengths.upperBound
    }
}

/// The two MACs between an item's metadata box and its value box. They authenticate the item's ID and everything before them.
///
/// The first is made with the key of the item's class, so metadata can be authenticated at the level of the class without
/// reading the value. The second is made with the key of `whenUnlocked`: it proves that a writer that could unlock the
/// store chose the class. It is random without that proof, in classes that need an unlock anyway, and in a store without slots.
struct ItemMACs {
    static let length = 2 * macLength

    private static let macLength = 32

    let header: ItemHeader
    let id: RecordID
    let keyring: Keyring

    private var classKey: SecretKey? { openKey(header.accessibility) }
    private var unlockKey: SecretKey? { openKey(.whenUnlocked) }
    private var protection: Keyring.Protection { keyring.protection(ofEpoch: header.epoch) }

    private func openKey(_ accessibility: Accessibility) -> SecretKey? {
        keyring.openKey(.classKey(accessibility), epoch: header.epoch)
    }

    private var needsUnlock: Bool { KeyRole.classKey(header.accessibility).level == .unlocked }

    /// Writes the MACs into a record that is complete up to them.
    func write(to record: UnsafeMutableRawBufferPointer, _ origin: ClassOrigin) {
        if let classKey { field(0, of: record).copyBytes(from: mac(.classMAC, classKey, of: record)) }
        if let unlockKey, !needsUnlock, protection == .slots, origin.proof == .unlocked {
            field(1, of: record).copyBytes(from: mac(.unlockMAC, unlockKey, of: record))
        } else {
            Sodium.fillRandom(field(1, of: record))
        }
    }

    /// Checks the MACs whose keys are open. Returns who chose the class.
    func check(_ record: UnsafeMutableRawBufferPointer) throws(RecordError) -> ClassOrigin {
        guard record.count >= header.valueStart else { throw .malformed("it is cut short") }
        if let classKey, !isRight(0, .classMAC, key: classKey, record) { throw .notAuthentic }
        if protection == .none { return ClassOrigin(.unprotected) }
        guard let unlockKey else { return ClassOrigin(.locked) }
        // Nothing can authenticate it.
        if !keyring.holds(.classKey(header.accessibility), epoch: header.epoch) { throw .unknownKey }
        if classKey == nil { return ClassOrigin(.locked) }
        // An attacker with a device key from before the first slot may have sealed it.
        if protection == .earlierThanSlots { return ClassOrigin(.missing) }
        let isProven = needsUnlock || isRight(1, .unlockMAC, key: unlockKey, record)
        return ClassOrigin(isProven ? .unlocked : .missing)
    }

    private func isRight(
        _ number: Int,
        _ personal: Personal,
        key: SecretKey,
        _ record: UnsafeMutableRawBufferPointer
    ) -> Bool {
        let field = UnsafeRawBufferPointer(field(number, of: record))
        return mac(personal, key, of: record).withUnsafeBytes { Sodium.isEqual($0, field) }
    }

    private func mac(_ personal: Personal, _ key: SecretKey, of record: UnsafeMutableRawBufferPointer)
        -> [UInt8]
    {
        let input = id.withBytes(Array.init) + record[..<header.metadataEnd]
        return Sodium.hash(of: input, key: key, personal: personal)
    }

    private func field(_ number: Int, of record: UnsafeMutableRawBufferPointer)
        -> UnsafeMutableRawBufferPointer
    {
        let start = header.metadataEnd + number * Self.macLength
        return record.part(start..<(start + Self.macLength))
    }
}

extension Accessibility {
    /// The stored number, 1 to 7.
    var number: UInt8 {
        switch self {
        case .whenUnlocked: 1
        case .afterFirstUnlock: 2
        case .always: 3
        case .whenUnlockedThisDeviceOnly: 4
        case .afterFirstUnlockThisDeviceOnly: 5
        case .alwaysThisDeviceOnly: 6
        case .whenPasscodeSetThisDeviceOnly: 7
        }
    }

    init?(number: UInt8) {
        guard let accessibility = Self.allCases.first(where: { $0.number == number }) else { return nil }
        self = accessibility
    }
}
