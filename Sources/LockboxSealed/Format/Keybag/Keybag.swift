import LockboxCore
import LockboxFiles
import LockboxSodium

/// A store's random ID, which each of its records contains.
typealias StoreID = SIMD16<UInt8>

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

/// The store's wrapped keys, as stored on disk.
struct Keybag: Sendable {
    static let maximumLength = headerLength + maximumEntries * Entry.length + macLength

    private static let headerLength = 136
    private static let macLength = 32
    private static let maximumEntries = 256

    /// The number of times the keybag has been written.
    let generation: UInt64
    let storeID: StoreID
    let passcode: PasscodeBlock?
    /// The epoch of the keys that seal new items.
    let epoch: UInt32
    private(set) var entries: [Entry]

    /// A wrapped key.
    struct Entry: Sendable, Equatable {
        static let length = 8 + boxLength
        static let boxLength = SealedBox.overhead + SecretKey.length

        let slot: Keyring.Slot
        var box: [UInt8]
    }

    /// Returns new keys for an epoch: one for metadata, and one for each class. `whenPasscodeSetThisDeviceOnly`
    /// has one only if there is a passcode.
    static func newKeys(epoch: UInt32, hasPasscode: Bool) throws -> [Keyring.Entry] {
        let classes = Accessibility.allCases.filter { hasPasscode || $0 != .whenPasscodeSetThisDeviceOnly }
        return try (classes.map(KeyRole.classKey) + [.metadata]).map { (.init($0, epoch), try .random()) }
    }

    /// Returns the keybag of a new store.
    static func create(deviceKey: SecretKey) throws -> Keybag {
        var storeID = StoreID()
        withUnsafeMutableBytes(of: &storeID) { Sodium.fillRandom($0) }
        let keys = try newKeys(epoch: 1, hasPasscode: false) + [(.init(.names, 1), .random())]
        return Keybag(
            generation: 1,
            storeID: storeID,
            passcode: nil,
            epoch: 1,
            keys: keys,
            wrappedBy: WrappingKeys(device: deviceKey, passcode: nil)
        )
    }

    /// Returns the next version of this keybag, with exactly the given keys.
    func next(
        passcode: PasscodeBlock?,
        epoch: UInt32,
        keys: [Keyring.Entry],
        wrappedBy wrapping: WrappingKeys
    ) -> Keybag {
        Keybag(
            generation: generation + 1,
            storeID: storeID,
            passcode: passcode,
            epoch: epoch,
            keys: keys,
            wrappedBy: wrapping
        )
    }

    /// Returns the next version of this keybag without some of its keys. The others stay wrapped as they are.
    func dropping(_ isDropped: (Keyring.Slot) -> Bool) -> Keybag {
        var keybag = Keybag(
            generation: generation + 1,
            storeID: storeID,
            passcode: passcode,
            epoch: epoch,
            entries: entries
        )
        keybag.entries.removeAll { isDropped($0.slot) }
        return keybag
    }

    /// Whether there are keys of an older epoch, which items may still use.
    var isRotating: Bool { entries.contains { $0.slot.role != .names && $0.slot.epoch != epoch } }

    /// Unwraps the keys that the given wrapping keys open.
    func unwrap(with wrapping: WrappingKeys) throws -> [Keyring.Entry] {
        try entries.compactMap { entry in
            guard let key = wrappingKey(for: entry.slot.role, wrapping) else { return nil }
            return (entry.slot, try unwrap(entry, with: key))
        }
    }

}

// MARK: - Wrapping

extension Keybag {
    private init(
        generation: UInt64,
        storeID: StoreID,
        passcode: PasscodeBlock?,
        epoch: UInt32,
        keys: [Keyring.Entry],
        wrappedBy wrapping: WrappingKeys
    ) {
        self.init(generation: generation, storeID: storeID, passcode: passcode, epoch: epoch, entries: [])
        for (slot, key) in keys { entries.append(wrap(key, for: slot, wrapping)) }
    }

    private func wrappingKey(for role: KeyRole, _ wrapping: WrappingKeys) -> SecretKey? {
        isGuarded(role) ? wrapping.passcode : wrapping.device
    }

    private func isGuarded(_ role: KeyRole) -> Bool { passcode != nil && role.isGuarded }

    private func wrap(_ key: SecretKey, for slot: Keyring.Slot, _ wrapping: WrappingKeys) -> Entry {
        guard let wrappingKey = wrappingKey(for: slot.role, wrapping) else {
            // Callers ensure this. Without the key, the guarded keys would be lost or stored unprotected.
            preconditionFailure("a keybag with a passcode cannot be written without the passcode's key")
        }
        var entry = Entry(slot: slot, box: [UInt8](repeating: 0, count: Entry.boxLength))
        let data = additionalData(for: entry)
        entry.box.withUnsafeMutableBytes { box in
            key.withBytes {
                UnsafeMutableRawBufferPointer(rebasing: box[SealedBox.prefixLength...]).copyMemory(from: $0)
            }
            data.withUnsafeBytes { data in
                withUnsafeBytes(of: storeID) {
                    SealedBox.seal(box, authenticating: data, context: $0, key: wrappingKey, personal: .wrap)
                }
            }
        }
        return entry
    }

    private func unwrap(_ entry: Entry, with wrappingKey: SecretKey) throws -> SecretKey {
        var box = entry.box
        let data = additionalData(for: entry)
        return try box.withUnsafeMutableBytes { box in
            let key = data.withUnsafeBytes { data in
                withUnsafeBytes(of: storeID) {
                    SealedBox.open(box, authenticating: data, context: $0, key: wrappingKey, personal: .wrap)
                }
            }
            guard let key else { throw RecordError.notAuthentic }
            defer { Sodium.wipe(key) }
            return try SecretKey { $0.copyMemory(from: UnsafeRawBufferPointer(key)) }
        }
    }

    /// Magic, version, suite, two zero bytes; store ID; passcode block; the entry's header.
    private func additionalData(for entry: Entry) -> [UInt8] {
        var data = [UInt8](repeating: 0, count: 8 + 16 + PasscodeBlock.length + 8)
        data.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            RecordKind.keybag.write(to: &writer)
            writer.skip(2)
            withUnsafeBytes(of: storeID) { writer.write($0) }
            writePasscode(to: &writer)
            writeHeader(of: entry, to: &writer)
        }
        return data
    }

    private func writePasscode(to writer: inout ByteWriter) {
        if let passcode { passcode.write(to: &writer) } else { writer.skip(PasscodeBlock.length) }
    }

    private func writeHeader(of entry: Entry, to writer: inout ByteWriter) {
        writer.write(entry.slot.role.number)
        writer.write(isGuarded(entry.slot.role) ? Self.wrappedByBoth : Self.wrappedByDevice)
        writer.skip(2)
        writer.write(entry.slot.epoch)
    }

    private static let wrappedByDevice: UInt8 = 1
    private static let wrappedByBoth: UInt8 = 2
}

// MARK: - The record

extension Keybag {
    private static let deviceCheckLength = 32
    private static let deviceCheckOffset = 32
    private static let passcodeOffset = 64

    /// Returns the record, authenticated with the device key.
    func encoded(deviceKey: SecretKey) -> [UInt8] {
        let length = Self.headerLength + entries.count * Entry.length + Self.macLength
        var record = [UInt8](repeating: 0, count: length)
        record.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            RecordKind.keybag.write(to: &writer)
            writer.skip(2)
            writer.write(generation)
            withUnsafeBytes(of: storeID) { writer.write($0) }
            writer.skip(Self.deviceCheckLength)
            writePasscode(to: &writer)
            writer.write(epoch)
            writer.write(UInt32(entries.count))
            for entry in entries {
                writeHeader(of: entry, to: &writer)
                entry.box.withUnsafeBytes { writer.write($0) }
            }
        }
        Self.authenticate(&record, deviceKey: deviceKey)
        return record
    }

    /// Fills in the device check and the MAC of an otherwise complete record.
    static func authenticate(_ record: inout [UInt8], deviceKey: SecretKey) {
        guard record.count >= headerLength + macLength else { return }
        let check = deviceCheckOffset..<(deviceCheckOffset + deviceCheckLength)
        record.replaceSubrange(check, with: deviceCheck(deviceKey))
        let mac = record.withUnsafeBytes { Self.mac(of: $0, deviceKey) }
        record.replaceSubrange((record.count - macLength)..., with: mac)
    }

    /// Reads a record and authenticates it with the device key.
    init(_ record: UnsafeRawBufferPointer, deviceKey: SecretKey) throws(RecordError) {
        var reader = ByteReader(record)
        try RecordKind.keybag.check(&reader)
        guard reader.skipZeros(2), let generation = reader.read(UInt64.self),
            let storeID = reader.readBytes(16)?.loadUnaligned(as: StoreID.self)
        else { throw .malformed("its header is not well-formed") }
        try Self.authenticate(record, deviceKey)

        _ = reader.readBytes(Self.deviceCheckLength)
        let passcode = try PasscodeBlock.read(&reader)
        guard let epoch = reader.read(UInt32.self), let count = reader.read(UInt32.self),
            reader.remaining == Int(count) * Entry.length + Self.macLength
        else { throw .malformed("its length does not match its number of keys") }
        self.init(generation: generation, storeID: storeID, passcode: passcode, epoch: epoch, entries: [])
        for _ in 0..<count { entries.append(try readEntry(&reader)) }
        guard Set(entries.map(\.slot)).count == entries.count else {
            throw .malformed("it contains the same key twice")
        }
    }

    private func readEntry(_ reader: inout ByteReader) throws(RecordError) -> Entry {
        guard let role = reader.read(UInt8.self).flatMap(KeyRole.init(number:)),
            reader.read(UInt8.self) == (isGuarded(role) ? Self.wrappedByBoth : Self.wrappedByDevice),
            reader.skipZeros(2), let epoch = reader.read(UInt32.self),
            let box = reader.readBytes(Entry.boxLength)
        else { throw .malformed("one of its keys is not well-formed") }
        return Entry(slot: Keyring.Slot(role, epoch), box: [UInt8](box))
    }

    /// The device check tells another store's device key from damage: with another key, both the check and the
    /// MAC fail. The MAC does not cover the check, so damage makes only one of them fail.
    private static func authenticate(_ record: UnsafeRawBufferPointer, _ deviceKey: SecretKey)
        throws(RecordError)
    {
        guard record.count >= headerLength + macLength, record.count <= maximumLength else {
            throw .malformed("its length of \(record.count) bytes is impossible")
        }
        let check = record[deviceCheckOffset..<(deviceCheckOffset + deviceCheckLength)]
        let isOurs = check.elementsEqual(deviceCheck(deviceKey))
        let isWhole = equal(
            UnsafeRawBufferPointer(rebasing: record[(record.count - macLength)...]),
            mac(of: record, deviceKey)
        )
        switch (isOurs, isWhole) {
        case (true, true): return
        case (false, false): throw .wrongDeviceKey
        default: throw .notAuthentic
        }
    }

    private static func deviceCheck(_ deviceKey: SecretKey) -> [UInt8] {
        hash(UnsafeRawBufferPointer(start: nil, count: 0), deviceKey, .deviceCheck)
    }

    /// Covers the whole record except the device check and the MAC itself.
    private static func mac(of record: UnsafeRawBufferPointer, _ deviceKey: SecretKey) -> [UInt8] {
        let covered =
            [UInt8](record[..<deviceCheckOffset])
            + [UInt8](record[passcodeOffset..<(record.count - macLength)])
        return covered.withUnsafeBytes { hash($0, deviceKey, .keybag) }
    }

    private static func hash(_ input: UnsafeRawBufferPointer, _ key: SecretKey, _ personal: Personal)
        -> [UInt8]
    {
        [UInt8](unsafeUninitializedCapacity: macLength) { output, count in
            let output = UnsafeMutableRawBufferPointer(
                rebasing: UnsafeMutableRawBufferPointer(output)[..<macLength]
            )
            Sodium.hash(input, key: key, personal: personal, into: output)
            count = macLength
        }
    }

    private static func equal(_ a: UnsafeRawBufferPointer, _ b: [UInt8]) -> Bool {
        b.withUnsafeBytes { Sodium.isEqual(a, $0) }
    }
}

// MARK: - The device key's record
