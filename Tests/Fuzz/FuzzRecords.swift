// swift-format-ignore-file: NeverUseForceTry, AllPublicDeclarationsHaveDocumentation

// Feeds arbitrary bytes to every parser of Lockbox, also to those that an attacker without the keys cannot reach:
// behind the authentication the input is sealed first. Compiled together with Sources/Lockbox by Scripts/fuzz, as
// the sanitizers of one binary have to be the same everywhere.

import Foundation

private let deviceKey = try! SecretKey { $0.copyBytes(from: 0..<32) }
private let keybag = try! Keybag.create(deviceKey: deviceKey)
private let wrapping = WrappingKeys(device: deviceKey, passcode: nil)
private let keyring = try! Keyring(keybag: keybag, keys: keybag.unwrap(with: wrapping))
private let id = RecordID { $0.copyBytes(from: 32..<64) }

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: start, count: count))
    guard let kind = bytes.first else { return 0 }
    let input = Array(bytes.dropFirst())
    switch kind % 5 {
    case 0: record(input)
    case 1: metadata(input)
    case 2: value(input)
    case 3: keybag(input)
    default: names(input)
    }
    return 0
}

/// An item as it stands on the disk, and so under the attacker's hand.
private func record(_ input: [UInt8]) {
    var record = input
    record.withUnsafeMutableBytes { record in
        precondition((try? ItemEnvelope.openItem(record, id: id, keyring: keyring, now: .distantPast)) == nil)
        precondition((try? ItemEnvelope.openMetadata(record, id: id, keyring: keyring)) == nil)
    }
}

/// What parses is written again as the same bytes.
private func metadata(_ input: [UInt8]) {
    input.withUnsafeBytes { bytes in
        guard let metadata = try? ItemMetadata(bytes, accessibility: .always) else { return }
        var output = [UInt8](repeating: 0, count: max(bytes.count, metadata.boxLength))
        output.withUnsafeMutableBytes { buffer in
            var writer = ByteWriter(buffer)
            metadata.write(to: &writer)
        }
        // Texts without a flag that says that they are there are dropped.
        let again = output.withUnsafeBytes { try? ItemMetadata($0, accessibility: .always) }
        precondition(again?.key == metadata.key && again?.attributes == metadata.attributes)
    }
}

/// A value's plaintext, sealed as Lockbox would.
private func value(_ input: [UInt8]) {
    let item = try! StoredItem(
        key: ItemKey(prefix: "p", key: "k"),
        value: ArchivedValue(data: Data(), format: .data),
        modified: .distantPast
    )
    let sealed = try! ItemEnvelope.seal(item, id: id, keyring: keyring)
    let start = ItemHeader.length + SealedBox.overhead + 256
    var record = sealed[..<start] + [UInt8](repeating: 0, count: SealedBox.prefixLength) + input
    record += [UInt8](repeating: 0, count: AEAD.tagLength)
    record.withUnsafeMutableBytes { record in
        let header = try! ItemHeader(UnsafeRawBufferPointer(record))
        ItemEnvelope.seal(
            record,
            from: start,
            to: record.count,
            header,
            id,
            try! keyring.key(.classKey(.whenUnlocked), epoch: 1),
            .value
        )
        let value = try? ItemEnvelope.openValue(record, id: id, keyring: keyring, now: .distantPast)
        precondition((value?.data.count ?? 0) <= input.count)
    }
}

/// A keybag, given the right device check and MAC.
private func keybag(_ input: [UInt8]) {
    var record = input
    Keybag.authenticate(&record, deviceKey: deviceKey)
    record.withUnsafeBytes { record in
        guard let keybag = try? Keybag(record, deviceKey: deviceKey) else { return }
        precondition(keybag.encoded(deviceKey: deviceKey) == Array(record))
        _ = try? keybag.unwrap(with: wrapping)
    }
    input.withUnsafeBytes { record in
        precondition((try? Keybag(record, deviceKey: deviceKey)) == nil)
        _ = try? DeviceKeyRecord.decode(record)
    }
}

private func names(_ input: [UInt8]) {
    let text = String(decoding: input, as: UTF8.self)
    if let id = RecordID(name: text) { precondition(id.name == text) }
    guard let key = try? ItemKey(prefix: text, key: text) else { return }
    _ = keyring.itemID(key)
    _ = keyring.namespace(ofPrefix: text)
}
