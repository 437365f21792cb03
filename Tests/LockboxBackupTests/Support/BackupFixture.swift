import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Two machines, played by two folders, and a backup of the first.
protocol BackupFixture {
    var source: TestStore { get }
    var target: TestStore { get }
}

extension BackupFixture {
    var path: String { Path.parent(of: source.directory) + "/backup" }
    var now: Date { Date(timeIntervalSinceReferenceDate: 800_000_000.5) }

    func item(
        _ key: String,
        _ prefix: String = "a",
        _ accessibility: Accessibility = .whenUnlocked,
        text: String? = nil,
        expires: Date? = nil
    ) throws -> StoredItem {
        try StoredItem(
            key: ItemKey(prefix: prefix, key: key),
            value: ArchivedValue(data: Data((text ?? "of \(key)").utf8), format: ValueFormat(rawValue: 130)),
            accessibility: accessibility,
            created: now - 100,
            modified: now,
            expires: key == "expired" ? .distantPast : expires,
            label: "L",
            comment: "C"
        )
    }

    func migratable() throws -> [StoredItem] {
        try [
            item("1"), item("2", "a", .afterFirstUnlock), item("3", "b", .always), item("expired"),
            item("Café 🔑", "b"), item("large", "a", text: String(repeating: "x", count: 70_000)),
            item("empty", "b", text: ""),
        ]
    }

    func prepare() throws -> EncryptedFileBackend {
        let backend = source.backend()
        for item in try migratable() { try backend.write(item, policy: .addOnly) }
        for accessibility in [
            Accessibility.whenUnlockedThisDeviceOnly, .afterFirstUnlockThisDeviceOnly, .alwaysThisDeviceOnly,
        ] {
            try backend.write(item(accessibility.rawValue, "b", accessibility), policy: .addOnly)
        }
        return backend
    }

    @discardableResult
    func export(_ backend: EncryptedFileBackend, prefix: String? = nil) throws -> ExportReport {
        try backend.exportBackup(
            to: path,
            for: .passphrase(.value("passphrase"), workFactor: 1),
            prefix: prefix
        )
    }

    func restore(_ backend: EncryptedFileBackend, _ policy: ExistingItemPolicy = .keep) throws
        -> ImportReport
    {
        try backend.importBackup(from: path, with: .passphrase(.value("passphrase")), existing: policy)
    }
}
