import Foundation

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The operations that Proofs/KillMatrix/run kills. An operation is a mode of Operations.swift, what it starts from, and what
/// must hold whenever it was killed.
let killableOperations =
    killableWrites + storeOperations + killableSlots + killableMigrations + killableFileMigrations

private let storeOperations: [KillableOperation] = [
    KillableOperation(
        "setPasscode",
        prepare: { try $0.prepare(fixtures(Accessibility.allCases.dropLast()), passcode: nil) },
        mode: { _ in ["setPasscode", "new"] },
        inspect: { folder in
            let (backend, passcode) = try folder.open([nil, "new"])
            try backend.requireExactly(fixtures(Accessibility.allCases.dropLast()))
            return passcode == nil ? .old : .new
        }
    ),
    KillableOperation(
        "changePasscode",
        prepare: { try $0.prepare(fixtures()) },
        mode: { _ in ["changePasscode", "old", "new"] },
        inspect: { folder in
            let (backend, passcode) = try folder.open(["old", "new"])
            try backend.requireExactly(fixtures())
            return passcode == "old" ? .old : .new
        }
    ),
    KillableOperation(
        "removePasscode",
        prepare: { try $0.prepare(fixtures()) },
        mode: { _ in ["removePasscode", "old"] },
        inspect: inspectRemovalOfPasscode,
        complete: completeRemovalOfPasscode
    ),
    KillableOperation(
        "setAccessibility",
        prepare: { try $0.prepare(fixtures()) },
        mode: { _ in ["changeClass", "ak", "akpu", "old"] },
        inspect: inspectChangeOfClass
    ),
    KillableOperation(
        "rotateKeys",
        prepare: { try $0.prepare(rotatable()) },
        mode: { _ in ["rotate", "old"] },
        inspect: inspectRotation
    ),
    KillableOperation(
        "export",
        prepare: { folder in
            try folder.prepare(fixtures())
            try earlierBackup.write(to: URL(fileURLWithPath: folder.backup))
        },
        mode: { ["export", $0.backup, "0", "old"] },
        inspect: inspectExport
    ),
    KillableOperation(
        "importBackup",
        prepare: { try $0.prepareImport(own: ownItems()) },
        mode: { ["importKeeping", $0.backup] },
        inspect: { try inspectImport($0, own: ownItems()) }
    ),
    KillableOperation(
        "importBackup, new store",
        prepare: { try $0.prepareImport(own: []) },
        mode: { ["importKeeping", $0.backup] },
        inspect: { try inspectImport($0, own: []) }
    ),
]

// MARK: Contents of the stores

let prefixes = ["com.example.process", "com.example.other"]

func fixture(
    _ key: String,
    _ prefix: String,
    _ accessibility: Accessibility,
    text: String? = nil,
    expires: Date? = nil
) throws -> StoredItem {
    try StoredItem(
        key: ItemKey(prefix: prefix, key: key),
        value: ArchivedValue(
            data: Data((text ?? "of \(key) in \(prefix)").utf8),
            format: ValueFormat(rawValue: 130)
        ),
        accessibility: accessibility,
        created: Date(timeIntervalSinceReferenceDate: 700_000_000),
        modified: Date(timeIntervalSinceReferenceDate: 800_000_000.5),
        expires: expires,
        label: "label of \(key)",
        comment: "C"
    )
}

/// In each of two prefixes an item of each class, two of `whenPasscodeSetThisDeviceOnly`; one item has expired, and one
/// is large.
func fixtures(_ classes: some Sequence<Accessibility> = Accessibility.allCases) throws -> [StoredItem] {
    let special = try [
        fixture("expired", prefixes[0], .whenUnlocked, expires: .distantPast),
        fixture("large", prefixes[1], .afterFirstUnlock, text: String(repeating: "x", count: 70_000)),
    ]
    return try special
        + prefixes.flatMap { prefix in
            try classes.flatMap { accessibility in
                let keys = accessibility == .whenPasscodeSetThisDeviceOnly ? ["akpu", "akpu 2"] : nil
                return try (keys ?? [accessibility.rawValue]).map { try fixture($0, prefix, accessibility) }
            }
        }
}

/// Fewer, as each is some 90 system calls.
func rotatable() throws -> [StoredItem] {
    try fixtures().filter { $0.key.prefix == prefixes[0] || ["large", "dk"].contains($0.key.key) }
}

private func migratable() throws -> [StoredItem] {
    try fixtures().filter { !$0.attributes.accessibility.isThisDeviceOnly }
}

/// The contents of the import's target before it: one item that is not in the backup, one that is the same, and one that
/// is another under the same key.
private func ownItems() throws -> [StoredItem] {
    try [
        fixture("own", prefixes[0], .whenUnlockedThisDeviceOnly),
        fixture("dk", prefixes[0], .always),
        fixture("ck", prefixes[1], .alwaysThisDeviceOnly, text: "the target's own"),
    ]
}

private let earlierBackup = Data("an earlier backup".utf8)

extension Folder {
    func prepare(_ items: [StoredItem], passcode: String? = "old") throws {
        let backend = backend()
        if let passcode { try backend.setPasscode(.value(passcode), strength: .interactive) }
        for item in items { try backend.write(item, policy: .addOnly) }
    }

    fileprivate func prepareImport(own: [StoredItem]) throws {
        try prepare(migratable(), passcode: nil)
        try backend().exportBackup(to: backup, for: .passphrase(.value("passphrase"), workFactor: 10))
        try FileManager.default.removeItem(atPath: store)
        try prepare(own, passcode: nil)
    }
}

// MARK: removePasscode

/// Killed after the new keybag and before the last removal, it leaves items that nothing opens any more.
@Sendable private func inspectRemovalOfPasscode(_ folder: Folder) throws -> KillableOperation.State {
    let (backend, passcode) = try folder.open(["old", nil])
    if passcode != nil {
        try backend.requireExactly(fixtures())
        return .old
    }
    let left = try unopenable(backend)
    let expected = try fixtures(Accessibility.allCases.dropLast())
    for item in expected {
        try require(
            backend.item(for: item.key, now: nil) == item,
            "\(item.key) is not as it was"
        )
    }
    try require(
        Set(backend.everyKey().keys) == Set(expected.map(\.key) + left),
        "other items are listed than there were"
    )
    for key in left {
        let value = Result { try backend.value(for: key, now: nil) }
        guard case .failure(LockboxError.corrupt) = value else {
            throw Violation(description: "\(key.key) opens without its class's key")
        }
    }
    try backend.requireIntact(
        but: Set(left.map { try backend.storage.location(of: backend.recordName(of: $0)) })
    )
    return left.isEmpty ? .new : .between
}

private func unopenable(_ backend: EncryptedFileBackend) throws -> [ItemKey] {
    try backend.everyKey().filter { $0.value.accessibility == .whenPasscodeSetThisDeviceOnly }.map(\.key)
        .sorted { ($0.prefix, $0.key) < ($1.prefix, $1.key) }
}

/// Each of the ways in which what nothing opens goes.
@Sendable private func completeRemovalOfPasscode(
    _ operation: KillableOperation,
    _ folder: Folder,
    _ state: KillableOperation.State
) throws {
    if state == .old { return try operation.perform(in: folder) }
    let left = try unopenable(folder.backend())
    if left.count > 1 {
        try folder.backend().remove(left[0])
        try require(unopenable(folder.backend()) == Array(left.dropFirst()), "it cannot be removed alone")
    }
    // An odd number goes with the next passcode, an even one when the call is made again.
    if left.count % 2 == 1 { try folder.backend().setPasscode(.value("old"), strength: .interactive) }
    do { try operation.perform(in: folder) } catch LockboxError.passcodeNotSet {}
}

// MARK: The other operations

@Sendable private func inspectChangeOfClass(_ folder: Folder) throws -> KillableOperation.State {
    let backend = try folder.open(["old"]).backend
    let key = try ItemKey(prefix: prefixes[0], key: "ak")
    let found = try backend.item(for: key, now: nil)
    let old = try fixture("ak", prefixes[0], .whenUnlocked)
    let isChanged = found?.attributes.accessibility == .whenPasscodeSetThisDeviceOnly
    let new = try StoredItem(
        key: key,
        value: old.value,
        checked: ItemChanges(
            options: WriteOptions(accessibility: .whenPasscodeSetThisDeviceOnly, policy: .updateOnly),
            modified: found?.attributes.modified ?? old.attributes.modified
        ).attributes(after: old.attributes, value: old.value)
    )
    try backend.requireExactly(fixtures().map { $0.key == key && isChanged ? new : $0 })
    return isChanged ? .new : .old
}

@Sendable func inspectRotation(_ folder: Folder) throws -> KillableOperation.State {
    let backend = try folder.open(["old"]).backend
    try backend.requireExactly(rotatable())
    let epochs = try Set(rotatable().map { try backend.itemSeal($0.key)?.epoch })
    if try folder.keybag().isRotating || epochs.count > 1 { return .between }
    // The passcode has begun the second epoch.
    return epochs == [2] ? .old : .new
}

extension Folder {
    func keybag() throws -> Keybag {
        func bytes(_ name: String) throws -> Data {
            try Data(contentsOf: URL(fileURLWithPath: "\(store)/\(name)"))
        }
        let deviceKeys = try bytes("device-key").withUnsafeBytes { try DeviceKeyRecord.decode($0) }
        var keybag = [UInt8](try bytes("keybag"))
        return try keybag.withUnsafeMutableBytes { try Keybag($0, deviceKeys: deviceKeys) }
    }
}

/// The earlier file, there or kept beside a whole new one or none. The rest of a killed export is closed to others.
@Sendable private func inspectExport(_ folder: Folder) throws -> KillableOperation.State {
    try folder.open(["old"]).backend.requireExactly(fixtures())
    let backup = try? Data(contentsOf: URL(fileURLWithPath: folder.backup))
    var isKept = false
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path)
    where name == "backup~" || name.hasPrefix("backup.") {
        let path = "\(folder.path)/\(name)"
        if try Data(contentsOf: URL(fileURLWithPath: path)) == earlierBackup {
            isKept = true
            continue
        }
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        try require(mode == 0o600, "\(name) is open to others")
    }
    if backup == earlierBackup { return .old }
    try require(isKept, "the earlier backup is gone")
    if backup == nil { return .old }
    let other = Folder(path: "\(folder.path)/restored")
    defer { try? FileManager.default.removeItem(atPath: other.path) }
    try other.backend().importBackup(
        from: folder.backup,
        with: .passphrase(.value("passphrase")),
        existing: .fail
    )
    try other.backend().requireExactly(migratable())
    return .new
}

/// The items from before are as they were; of the others each is absent or exact.
private func inspectImport(_ folder: Folder, own: [StoredItem]) throws -> KillableOperation.State {
    let backend = try folder.open([nil]).backend
    let arriving = try migratable().filter { item in !own.contains { $0.key == item.key } }
    let found = try backend.everything()
    let arrived = arriving.filter { found[$0.key] != nil }
    try backend.requireExactly(own + arrived)
    return arrived.isEmpty ? .old : arrived.count < arriving.count ? .between : .new
}
