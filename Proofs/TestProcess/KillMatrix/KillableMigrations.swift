import Foundation

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

#if canImport(LockboxImport)
    @testable import LockboxImport
#endif

/// Migrations and moves, for Proofs/KillMatrix/run: nothing is ever in neither place, nor under one key in both forms.
let killableMigrations: [KillableOperation] = [
    KillableOperation(
        "migrate 50 items",
        prepare: { folder in
            try folder.prepare(
                [fixture("dk", prefixes[0], .always)] + (0..<50).map(legacyItem),
                passcode: nil
            )
        },
        mode: { _ in ["migrateStore"] },
        inspect: { try inspectMigration($0, storeMigration(), [.migratedBefore], old: storedTexts) }
    ),
    KillableOperation(
        "moveItems",
        prepare: { folder in
            try folder.prepare(fixtures(Accessibility.allCases.dropLast()), passcode: nil)
            _ = try folder.target.keyStore.keyring(creating: true)
        },
        mode: { ["move", $0.targetPath] },
        inspect: inspectMove
    ),
]

/// The operations' own modes. There is no other runner that is alive: a killed one is not waited for long.
func runMigration(_ mode: String, _ arguments: [String], _ backend: EncryptedFileBackend) throws {
    try MigrationClaim.$patience.withValue(.milliseconds(50)) {
        // A busy machine takes more than a second, and its runs would make other calls than the first one.
        try MigrationClaim.$interval.withValue(.seconds(3600)) { try run(mode, arguments, backend) }
    }
}

private func run(_ mode: String, _ arguments: [String], _ backend: EncryptedFileBackend) throws {
    let lockbox = try Lockbox(keyPrefix: prefixes[0], backend: backend)
    switch (mode, arguments.count) {
    case ("migrateStore", 0):
        let report = try lockbox.migrate(storeMigration())
        try require(report.isComplete, "not everything was migrated: \(report)")
    #if canImport(LockboxImport)
        case ("migrateFile", 1):
            let report = try lockbox.migrate(fileMigration(arguments[0]))
            try require(report.isComplete, "not everything was migrated: \(report)")
    #endif
    case ("move", 1):
        let report = try backend.moveItems(
            to: EncryptedFileBackend(directory: arguments[0]),
            prefix: prefixes[0]
        )
        try require(report.isComplete, "not everything was moved: \(report.failures)")
    default: exit(64)
    }
}

private func storeMigration() -> Migration { Migration(migrationName, items: items) }

private let migrationName = "all fifty"

/// Every other one gets another key.
private var items: [Migration.Item] { (0..<50).map { .string("KEY\($0)", to: newKey($0)) } }

private func newKey(_ number: Int) -> String { number.isMultiple(of: 2) ? "new\(number)" : "KEY\(number)" }

private func text(_ number: Int) -> String { "value-\(number)" }

private func legacyItem(_ number: Int) throws -> StoredItem {
    try StoredItem(
        key: ItemKey(prefix: prefixes[0], key: "KEY\(number)"),
        value: ArchivedValue(data: Data(text(number).utf8), format: .lockbox2),
        accessibility: .afterFirstUnlock,
        modified: Date(timeIntervalSinceReferenceDate: 800_000_000.5)
    )
}

extension Folder {
    fileprivate var targetPath: String { "\(path)/target" }
    fileprivate var target: EncryptedFileBackend { EncryptedFileBackend(directory: targetPath) }
}

/// The old items that are left in the store.
@Sendable private func storedTexts(_ backend: EncryptedFileBackend) throws -> [String: String] {
    var texts: [String: String] = [:]
    for key in try backend.attributes(prefix: prefixes[0], now: Date()).keys {
        guard let value = try backend.value(for: key, now: Date()), value.format == .lockbox2 else {
            continue
        }
        texts[key.key] = String(decoding: value.data, as: UTF8.self)
    }
    return texts
}

/// - Parameter ended: The outcomes that another run may give each item after all are migrated.
private func inspectMigration(
    _ folder: Folder,
    _ migration: Migration,
    _ ended: [MigrationReport.Outcome],
    old: (EncryptedFileBackend) throws -> [String: String]
) throws -> KillableOperation.State {
    let backend = folder.backend()
    let lockbox = try Lockbox(keyPrefix: prefixes[0], backend: backend)
    let old = try old(backend)
    var migrated = 0
    for number in 0..<50 {
        let attributes = try lockbox.attributes(forKey: newKey(number))
        let isNew = attributes?.format == .json
        if isNew {
            let value = try lockbox.unarchiveObject(String.self, forKey: newKey(number))
            try require(value == text(number), "\(newKey(number)) is another value")
            migrated += 1
        }
        let left = old["KEY\(number)"]
        try require(left == nil || left == text(number), "KEY\(number) is another value")
        try require(isNew || left != nil, "KEY\(number) is in neither place")
    }
    let dk = try fixture("dk", prefixes[0], .always)
    try require(backend.item(for: dk.key, now: Date()) == dk, "dk is not as it was")
    try require(lockbox.allKeys().count == migrated + (1 + inStore(old, lockbox)), "there are other keys")
    try backend.requireIntact()
    if migrated == 0 { return .old }
    guard old.isEmpty, migrated == 50 else { return .between }
    let report = try lockbox.migrate(migration, dryRun: true)
    return report.outcomes.allSatisfy { ended.contains($0.outcome) } ? .new : .between
}

/// How many of the old items are keys of the store.
private func inStore(_ old: [String: String], _ lockbox: Lockbox) throws -> Int {
    try old.keys.filter { try lockbox.attributes(forKey: $0)?.format == .lockbox2 }.count
}

@Sendable private func inspectMove(_ folder: Folder) throws -> KillableOperation.State {
    let all = try fixtures(Accessibility.allCases.dropLast())
    let expected = all.filter { $0.key.prefix == prefixes[0] }
    let (source, target) = (folder.backend(), folder.target)
    var left = 0
    for item in expected {
        let old = try source.item(for: item.key, now: nil)
        let new = try target.item(for: item.key, now: nil)
        try require(old == nil || old == item, "\(item.key.key) has changed where it was")
        try require(new == nil || new == item, "\(item.key.key) has changed on its way")
        try require(old != nil || new != nil, "\(item.key.key) is in neither store")
        if old != nil { left += 1 }
    }
    let others = try source.everything().values.filter { $0.key.prefix != prefixes[0] }
    try require(Set(others) == Set(all).subtracting(expected), "what was not to be moved has changed")
    try source.requireIntact()
    try target.requireIntact()
    return left == expected.count ? .old : left > 0 ? .between : .new
}

#if canImport(LockboxImport)
    let killableFileMigrations = [
        KillableOperation(
            "migrate 50 lines of a file",
            prepare: { folder in
                try folder.prepare([fixture("dk", prefixes[0], .always)], passcode: nil)
                let lines = (0..<50).map { "KEY\($0)=\(text($0))\n" }
                try Data(("# settings\n" + lines.joined() + "PORT=80\n").utf8)
                    .write(to: URL(fileURLWithPath: folder.settings))
            },
            mode: { ["migrateFile", $0.settings] },
            inspect: { folder in
                let lines = String(
                    decoding: try Data(contentsOf: URL(fileURLWithPath: folder.settings)),
                    as: UTF8.self
                )
                try require(
                    lines.hasPrefix("# settings\n") && lines.hasSuffix("PORT=80\n"),
                    "other lines have changed"
                )
                // A killed run may have removed an item from the file, and not recorded it yet.
                let migration = fileMigration(folder.settings)
                return try inspectMigration(folder, migration, [.migratedBefore, .alreadyMigrated]) { _ in
                    try textsInFile(folder)
                }
            }
        )
    ]

    private func fileMigration(_ path: String) -> Migration {
        Migration(migrationName, from: .environmentFile(at: path), items: items)
    }

    private func textsInFile(_ folder: Folder) throws -> [String: String] {
        let file = try FileItems(path: folder.settings, format: .environment(.common))
        var texts: [String: String] = [:]
        for number in 0..<50 {
            if case .typed(let value) = try file.item(forKey: "KEY\(number)")?.value {
                texts["KEY\(number)"] = try value.decoded(as: String.self)
            }
        }
        return texts
    }

    extension Folder {
        fileprivate var settings: String { "\(path)/settings.env" }
    }
#else
    /// Without the extension Import.
    let killableFileMigrations: [KillableOperation] = []
#endif
