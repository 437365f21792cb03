import Foundation

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A store, what is in it, and records that must be refused: `Tests/LockboxStoreTests/Vectors/*.json`.
///
/// From 0.1.0 on, a file of vectors is made once for a version of the format, and never again: it proves that old files still open.
struct Vectors: Codable {
    var deviceKey: Data
    var keybag: Data
    var items: [Item]
    var refused: [Refused]
    var slots: Slots

    /// A store with a passcode, a recovery code, and a key that opens the `afterFirstUnlock` classes. Its keys are those
    /// of the second epoch or a later one.
    struct Slots: Codable {
        var deviceKey: Data
        var keybag: Data
        var passcode: String
        var recoveryCode: String
        var key: Data
        var items: [Item]
    }

    struct Item: Codable {
        var prefix: String
        var key: String
        var accessibility: String
        /// Seconds since 2001-01-01 00:00:00 UTC.
        var created: Double
        var modified: Double
        var expires: Double?
        var label: String?
        var comment: String?
        var attributes: [String: String]?
        var format: UInt8
        var value: Data
        /// Below the store's folder.
        var path: String
        var record: Data
    }

    /// Bytes that stand in the place of the first item's record.
    struct Refused: Codable {
        var description: String
        var error: LockboxError.Code
        var record: Data
    }
}

/// A folder may be used again.
private func forgetful(_ directory: String) -> EncryptedFileBackend {
    EncryptedFileBackend(KeyStore(storage: FileStorage(directory: directory), deviceKey: .stored))
}

func printVectors(_ directory: String) throws {
    let backend = forgetful(directory)
    func bytes(_ path: String) throws -> Data {
        try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(path)"))
    }

    let date = Date(timeIntervalSinceReferenceDate: 801_234_567.890625)
    func value(_ text: String, _ format: ValueFormat = .data) throws -> ArchivedValue {
        try ArchivedValue(data: Data(text.utf8), format: format)
    }
    var items = try [
        StoredItem(
            key: ItemKey(prefix: "com.example.app", key: "token"),
            value: value("t0ken"),
            modified: date
        ),
        StoredItem(
            key: ItemKey(prefix: "com.example.app", key: "session"),
            value: value(#"{"user":"alice","visits":3}"#, .json),
            accessibility: .afterFirstUnlock,
            created: date,
            modified: date + 1,
            expires: Date(timeIntervalSinceReferenceDate: 32e9),
            label: "Session",
            comment: "Of the web shop",
            searchable: ["server": "shop.example.com", "account": "alice", "e\u{301}": ""]
        ),
        StoredItem(key: ItemKey(prefix: "com.example.app", key: "empty"), value: value(""), modified: date),
        StoredItem(
            key: ItemKey(prefix: "com.example.app", key: "expired"),
            value: value("gone"),
            modified: date,
            expires: date + 1
        ),
        StoredItem(
            key: ItemKey(prefix: "com.example.app", key: "Caf\u{E9} 🔑"),
            value: value("composed"),
            modified: date
        ),
        StoredItem(
            key: ItemKey(prefix: "com.example.app", key: "custom"),
            value: value("a coder's own", ValueFormat(rawValue: 200)),
            modified: date
        ),
        StoredItem(
            key: ItemKey(prefix: "com.example.app", key: "large"),
            value: value(String(repeating: "0123456789", count: 500)),
            modified: date,
            label: String(repeating: "l", count: ItemAttributes.maximumTextLength),
            comment: String(repeating: "c", count: ItemAttributes.maximumTextLength),
            searchable: Dictionary(
                uniqueKeysWithValues: "abcd".map { (String($0), String(repeating: $0, count: 4095)) }
            )
        ),
        StoredItem(
            key: ItemKey(prefix: "com.example", key: "app.token"),
            value: value("of another"),
            modified: date
        ),
    ]
    for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
        items.append(
            try StoredItem(
                key: ItemKey(prefix: "com.example.classes", key: "\(accessibility)"),
                value: value("of the class \(accessibility.rawValue)"),
                accessibility: accessibility,
                modified: date
            )
        )
    }
    for item in items { try backend.write(item, policy: .addOnly) }

    let described = try items.map { try describe($0, backend, directory) }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let vectors = try Vectors(
        deviceKey: bytes("device-key"),
        keybag: bytes("keybag"),
        items: described,
        refused: refused(described[0].record, another: described[1].record)
            + [named("session", items[0], backend)],
        slots: makeSlots("\(directory)-slots", date)
    )
    print(String(decoding: try encoder.encode(vectors), as: UTF8.self))
}

private func makeSlots(_ directory: String, _ date: Date) throws -> Vectors.Slots {
    let backend = forgetful(directory)
    let (passcode, code, key) = ("Pa\u{DF}wort 42", RecoveryCode(), Sodium.randomBytes(48))
    try backend.setPasscode(.value(passcode), strength: .interactive)
    try backend.addRecoveryCode(code, confirmation: .value(code.text), label: "in the safe")
    try backend.addSlot(.key(.closure { key }), label: "the service")
    let items = try Accessibility.allCases.map { accessibility in
        let item = try StoredItem(
            key: ItemKey(prefix: "com.example.classes", key: "\(accessibility)"),
            value: ArchivedValue(data: Data("of the class \(accessibility.rawValue)".utf8), format: .data),
            accessibility: accessibility,
            modified: date
        )
        try backend.write(item, policy: .addOnly)
        return item
    }
    return try Vectors.Slots(
        deviceKey: Data(contentsOf: URL(fileURLWithPath: "\(directory)/device-key")),
        keybag: Data(contentsOf: URL(fileURLWithPath: "\(directory)/keybag")),
        passcode: passcode,
        recoveryCode: code.text,
        key: Data(key),
        items: items.map { try describe($0, backend, directory) }
    )
}

private func describe(_ item: StoredItem, _ backend: EncryptedFileBackend, _ directory: String) throws
    -> Vectors.Item
{
    let path = try backend.storage.location(of: backend.recordName(of: item.key)).dropFirst(
        directory.count + 1
    )
    return Vectors.Item(
        prefix: item.key.prefix,
        key: item.key.key,
        accessibility: item.attributes.accessibility.rawValue,
        created: item.attributes.created.timeIntervalSinceReferenceDate,
        modified: item.attributes.modified.timeIntervalSinceReferenceDate,
        expires: item.attributes.expires?.timeIntervalSinceReferenceDate,
        label: item.attributes.label,
        comment: item.attributes.comment,
        attributes: item.attributes.searchable.isEmpty ? nil : item.attributes.searchable,
        format: item.value.format.rawValue,
        value: item.value.data,
        path: String(path),
        record: try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(path)"))
    )
}

private func refused(_ record: Data, another: Data) -> [Vectors.Refused] {
    func changed(_ description: String, _ error: LockboxError.Code, at offset: Int, to bytes: UInt8...)
        -> Vectors.Refused
    {
        var record = record
        record.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        return Vectors.Refused(description: description, error: error, record: record)
    }
    func flipped(_ description: String, at offset: Int) -> Vectors.Refused {
        changed(description, .authenticationFailed, at: offset, to: record[offset] ^ 1)
    }
    return [
        .init(description: "no bytes", error: .corrupt, record: Data()),
        .init(description: "cut in the header", error: .corrupt, record: record.prefix(31)),
        .init(description: "cut in the metadata", error: .corrupt, record: record.prefix(300)),
        .init(description: "cut at the metadata's end", error: .corrupt, record: record.prefix(360)),
        .init(description: "cut at the end of the MACs", error: .corrupt, record: record.prefix(424)),
        .init(description: "the last byte missing", error: .authenticationFailed, record: record.dropLast()),
        .init(description: "a byte more", error: .authenticationFailed, record: record + [0]),
        .init(description: "another item's record", error: .authenticationFailed, record: another),
        changed("another magic", .corrupt, at: 0, to: 0x6C),
        changed("version 0", .unsupportedVersion, at: 4, to: 0),
        changed("version 255", .unsupportedVersion, at: 4, to: 255),
        changed("suite 1", .unsupportedVersion, at: 5, to: 1),
        changed("suite 255", .unsupportedVersion, at: 5, to: 255),
        changed("class 0", .corrupt, at: 6, to: 0),
        changed("class 8", .corrupt, at: 6, to: 8),
        changed("another class", .authenticationFailed, at: 6, to: 2),
        changed("the reserved byte not zero", .corrupt, at: 7, to: 1),
        changed("an epoch that comes after the keybag's", .rolledBack, at: 8, to: 2),
        changed("an epoch that the keybag does not hold", .corrupt, at: 8, to: 0),
        changed("a metadata length past the end", .corrupt, at: 12, to: 0xFF, 0xFF, 0xFF, 0xFF),
        changed("a metadata length of zero", .corrupt, at: 12, to: 0, 0, 0, 0),
        changed("a metadata length that is longer", .authenticationFailed, at: 12, to: 0x49, 1, 0, 0),
        flipped("a bit of the store id", at: 16),
        flipped("a bit of the metadata's nonce", at: 32),
        flipped("a bit of the metadata's commitment", at: 56),
        flipped("a bit of the metadata", at: 88),
        flipped("a bit of the metadata's tag", at: 359),
        flipped("a bit of the class's MAC", at: 360),
        flipped("a bit of the unlock's MAC", at: 392),
        flipped("a bit of the value's nonce", at: 424),
        flipped("a bit of the value's commitment", at: 448),
        flipped("a bit of the value", at: 480),
        flipped("a bit of the value's tag", at: record.count - 1),
    ]
}

/// The item's record with the key of another item in its metadata, as whoever has all keys can seal it.
private func named(_ key: String, _ item: StoredItem, _ backend: EncryptedFileBackend) throws
    -> Vectors.Refused
{
    let keyring = try backend.keyStore.currentKeyring()
    let other = try item.renamed(to: ItemKey(prefix: item.key.prefix, key: key))
    let record = try ItemEnvelope.seal(other, id: keyring.itemID(item.key), keyring: keyring)
    return Vectors.Refused(
        description: "metadata that names another key",
        error: .authenticationFailed,
        record: Data(record)
    )
}
