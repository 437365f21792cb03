// swift-format-ignore-file: NeverUseForceTry

// Feeds arbitrary bytes to every parser of Lockbox, also to those that an attacker without the keys cannot reach:
// behind the authentication the input is sealed first.

import Foundation

private let deviceKey = try! SecretKey { $0.copyBytes(from: 0..<32) }
private let keybag = try! open(KeybagContents().encoded(deviceKey: deviceKey))
private let keyring = try! Keyring(keybag: keybag, keys: keybag.open(keybag.unlockKeys(with: nil)).keys)
private let id = RecordID { $0.copyBytes(from: 32..<64) }

func fuzzRecords(_ kind: Int, _ input: [UInt8]) {
    switch kind % 12 {
    case 0: record(input)
    case 1: metadata(input)
    case 2: value(input)
    case 3: keybag(input)
    case 4: names(input)
    case 5: slot(input)
    case 6: vaults(input)
    case 7: sharedUnlock(input)
    case 8: ageHeader(input)
    case 9: backup(input)
    case 10: ageText(input)
    default: recoveryCode(input)
    }
}

/// An item as it stands on the disk, and so under the attacker's hand.
private func record(_ input: [UInt8]) {
    var record = input
    record.withUnsafeMutableBytes { record in
        precondition((try? ItemEnvelope.openItem(record, id: id, keyring: keyring, now: .distantPast)) == nil)
        precondition((try? ItemEnvelope.openMetadata(record, id: id, keyring: keyring)) == nil)
    }
}

/// Input that parses is written again with the same meaning.
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
        let key = try! keyring.key(.classKey(.whenUnlocked), epoch: 1)
        let context = ItemEnvelope.context(header, id)
        let boxKey = BoxKey(key: key, personal: .value, context: context)
        ItemEnvelope.seal(record, start..<record.count, with: boxKey)
        let value = try? ItemEnvelope.openValue(record, id: id, keyring: keyring, now: .distantPast)
        precondition((value?.data.count ?? 0) <= input.count)
    }
}

/// A keybag's plaintext, sealed with the device key. Its vaults are under other keys, so nothing unlocks it.
private func keybag(_ input: [UInt8]) {
    var record = [UInt8](repeating: 0, count: KeybagHeader.length + SealedBox.prefixLength) + input
    record += [UInt8](repeating: 0, count: AEAD.tagLength)
    record.withUnsafeMutableBytes { record in
        var writer = ByteWriter(record)
        KeybagHeader(generation: 1, storeID: keybag.storeID).write(to: &writer)
        KeybagHeader.seal(record, deviceKey)
    }
    if let keybag = try? open(record) {
        precondition(keybag.slots.count <= Keybag.maximumSlots && keybag.keyIDs.count <= Keybag.maximumKeys)
        for level in UnlockLevel.allCases { precondition((try? keybag.open([level: deviceKey])) == nil) }
        let unlockKeys = try? keybag.unlockKeys(with: nil)
        precondition(unlockKeys?.isEmpty == !keybag.slots.isEmpty)
    }
    precondition((try? open(input)) == nil)
    input.withUnsafeBytes { _ = try? DeviceKeyRecord.decode($0) }
}

private func open(_ record: [UInt8]) throws -> Keybag {
    var record = record
    return try record.withUnsafeMutableBytes { try Keybag($0, deviceKeys: [deviceKey]) }
}

/// Input that parses is written again as the same bytes.
private func slot(_ input: [UInt8]) {
    input.withUnsafeBytes { bytes in
        _ = try? PasscodeCost(input)
        var reader = ByteReader(bytes)
        guard let slot = try? KeybagSlot(&reader) else { return }
        var output = [UInt8](repeating: 0, count: slot.length)
        output.withUnsafeMutableBytes {
            var writer = ByteWriter($0)
            slot.write(to: &writer)
        }
        precondition(output == Array(bytes[..<reader.offset]))
    }
}

/// A keybag with any keys, five bytes of the input for each: all of them are in its vaults, and come out again.
private func vaults(_ input: [UInt8]) {
    var contents = try! KeybagContents()
    var ids = Set(contents.keys.map(\.id))
    for start in stride(from: 0, to: input.count - 4, by: 5) where ids.count < Keybag.maximumKeys {
        let epoch = input[start + 1..<start + 5].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard let role = KeyRole(number: input[start]), role != .names,
            ids.insert(.init(role, epoch)).inserted
        else {
            continue
        }
        contents.keys.append((.init(role, epoch), try! .random()))
    }
    let keybag = try! open(contents.encoded(deviceKey: deviceKey))
    let opened = try! keybag.open(contents.unlockKeys).keys
    precondition(opened.count == contents.keys.count)
    for (id, key) in contents.keys {
        precondition(opened.first { $0.id == id }?.key.isEqual(to: key) == true)
    }
    _ = try? contents.beginEpoch()
}

/// A record of the kernel, as it is and sealed with the device key.
private func sharedUnlock(_ input: [UInt8]) {
    let header = 16
    var record = Array(input.prefix(SharedUnlock.length))
    record += [UInt8](repeating: 0, count: SharedUnlock.length - record.count)
    precondition(sharedUnlock(in: record) == nil)
    precondition(sharedUnlock(in: input) == nil)
    let data = record[..<header] + withUnsafeBytes(of: UInt32(7).littleEndian, Array.init)
    let boxKey = BoxKey(key: deviceKey, personal: .sharedUnlock, context: keybag.storeID.bytes)
    record.withUnsafeMutableBytes {
        SealedBox.seal($0.part(header...), authenticating: Array(data), with: boxKey)
    }
    guard let unlock = sharedUnlock(in: record) else { return }
    precondition(unlock.level == .unlocked && (unlock.deadline == 0 || unlock.deadline > 1))
}

private func sharedUnlock(in record: [UInt8]) -> SharedUnlock? {
    var record = record
    return record.withUnsafeMutableBytes {
        try! SharedUnlock($0, .unlocked, 7, keybag.storeID, deviceKey, now: 1)
    }
}

/// A code that somebody types.
private func recoveryCode(_ input: [UInt8]) {
    guard let code = try? input.withUnsafeBytes({ try RecoveryCode(typed: $0) }) else { return }
    precondition(try! RecoveryCode(code.text).isSame(as: code))
    precondition(code.text.utf8.count == 34)
    precondition(try! code.key().withBytes { $0.count } == 26)
}

private func names(_ input: [UInt8]) {
    let text = String(decoding: input, as: UTF8.self)
    if let id = RecordID(name: text) { precondition(id.name == text) }
    guard let key = try? ItemKey(prefix: text, key: text) else { return }
    _ = keyring.itemID(key)
    _ = keyring.namespace(ofPrefix: text)
}

private let ageKey = AgePrivateKey()

private func decrypt(_ file: [UInt8], _ identities: [AgeIdentity]) throws -> [UInt8] {
    var (rest, output) = (file[...], [UInt8]())
    var age = try AgeDecryptor(identities) { buffer in
        let next = rest.prefix(min(97, buffer.count))
        buffer.copyBytes(from: next)
        rest = rest.dropFirst(next.count)
        return next.count
    }
    while let chunk = try age.next() { output += chunk }
    return output
}

/// The rest of a backup file after its version, which nobody has authenticated.
private func ageHeader(_ input: [UInt8]) {
    let intro = Array("age-encryption.org/v1\n".utf8)
    let identities: [AgeIdentity] = [.x25519(ageKey), .passphrase(WipedBytes([1]), maximumWorkFactor: 4)]
    for stanza in ["", "-> X25519 ", "-> scrypt "] {
        precondition((try? decrypt(intro + Array(stanza.utf8) + input, identities)) == nil)
    }
}

private func ageText(_ input: [UInt8]) {
    let text = String(decoding: input, as: UTF8.self)
    if let key = try? AgePublicKey(text) { precondition(key.text == text.lowercased()) }
    if let key = try? AgePrivateKey(text) { precondition(key.text == text.uppercased()) }
}

/// The lines of a backup between the first and the last, which whoever knows a public key can encrypt to it. What is read is written
/// again as lines that give the same items.
private func backup(_ input: [UInt8]) {
    var age = try! AgeEncryptor(to: [.x25519(ageKey.publicKey)])
    let file = age.header + age.encrypt(input) + age.finish()
    precondition(try! decrypt(file, [.x25519(ageKey)]) == input)
    _ = try? storedItems(in: input)
    let first = BackupLines.first(nil, .distantPast)
    guard let items = try? storedItems(in: first + input + [10]) else { return }
    precondition(try! storedItems(in: first + items.flatMap { BackupLines.item($0) }) == items)
}

private func storedItems(in bytes: [UInt8]) throws -> [StoredItem] {
    var (lines, items) = (BackupLines(), [StoredItem]())
    try lines.add(bytes) { items.append($0) }
    return items
}
