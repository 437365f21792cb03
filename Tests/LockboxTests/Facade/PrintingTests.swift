import Foundation
import Testing

@testable import Lockbox
@testable import LockboxBackup
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) @testable import LockboxTesting

/// However a program prints a public value, it shows neither a secret nor a key nor a closure.
@Suite struct PrintingTests {
    private let store: TestStore
    private let secret = "hunter2"
    private let code = RecoveryCode()
    private let deviceKey = (0..<32).map { UInt8(200 - $0) }

    init() throws { store = try TestStore() }

    /// Values of every public type, with a secret wherever they can hold one.
    private func samples() throws -> [String: [Any]] {
        let value = try ArchivedValue(data: Data(secret.utf8), format: .data)
        let item = try StoredItem(key: ItemKey(prefix: "p", key: "k"), value: value, modified: Date())
        let memory = InMemoryBackend()
        try memory.write(item, policy: .replace)
        let failing = FailingBackend(memory)
        let backend = EncryptedFileBackend(directory: store.directory, deviceKey: .bytes(deviceKey))
        try backend.write(item, policy: .replace)
        try backend.setPasscode(.value(secret), strength: .interactive)
        let lockboxes = try [memory, failing, backend as any LockboxBackend].map {
            try Lockbox(keyPrefix: "p", backend: $0)
        }
        let migration = Migration("m", from: .items(["k": Data(secret.utf8)]), .string("k", to: "new"))
        let deviceKeys: [DeviceKeySource] = [
            .bytes(deviceKey), .bytes(Array(secret.utf8)), .stored, .credential(),
        ]
        let passcodes: [PasscodeSource] = [
            .value(secret), .closure { [secret] in Array(secret.utf8) }, .standard,
        ]
        let sources: [MigrationSource] = [migration.source, .store, .backend(backend)]
        let errors: [LockboxError] = [
            .encodingFailed(key: "k", underlying: Quoting(text: secret)),
            .decodingFailed(key: "k", type: "Int", underlying: Quoting(text: secret)),
        ]
        let usedUnlock = SecretUnlock.recoveryCode(.value(code.text))
        _ = try usedUnlock.enroll(salt: [UInt8](repeating: 1, count: 32))  // it remembers the code now
        var samples: [String: [Any]] = [
            "LockboxError.Code": [errors[0].code], "DeviceKeySource": deviceKeys, "FailingBackend": [failing],
            "FileStorage": [backend.storage], "InMemoryBackend": [memory], "Migration.Item": migration.items,
            "Lockbox": lockboxes, "LockboxError": errors, "Migration": [migration],
            "MigrationSource": sources, "PasscodeSource": passcodes, "SealedBackend": [backend],
            "StoredItem": [item], "ArchivedValue": [value], "ItemAttributes": [item.attributes],
            "ItemKey": [item.key], "ValueFormat": [value.format],
            "BackendConformance": [BackendConformance.all[0]],
            "ConformanceFailure": [ConformanceFailure(requirement: "r", finding: "f")],
            "RecordName": [RecordName(namespace: "s", name: "n")], "RecordRevision": [RecordRevision(1)],
            "StoreProgress": [StoreProgress(completed: 1, total: 2)], "ItemChanges": [ItemChanges(item)],
            "ItemOperation": [ItemOperation.write(ItemChanges(item), to: item.key)],
            "LockboxBatch": try [batch(lockboxes[0])],
            "ItemList": [ItemList(items: ["k": item.attributes])],
            "UnreadableItem": [UnreadableItem(key: item.key, record: "r", location: "l", error: errors[0])],
            "AttributeChange": [AttributeChange.set("label")], "Expiry": [Expiry.never],
            "LockboxKey": [LockboxKey("k", default: secret)],
            "WriteOptions": [WriteOptions(label: "label")],
            "LockboxChange": [LockboxChange.item("k")],
            "RecordNotice": [RecordNotice.records(["n"])],
            "InternetPassword": [InternetPassword(server: "s", account: "a")],
            "RecoveryCode": [code],
            "SecretUnlock": [
                SecretUnlock.passcode(.value(secret)), SecretUnlock.key(.bytes(deviceKey)), usedUnlock,
            ],
            "SlotEnrollment": [SlotEnrollment(parameters: [], secret: Array(secret.utf8))],
            "StoreRequirements": [StoreRequirements()], "UnlockSlot": try backend.slots,
            "StoreStatus": [try backend.status() as Any],
            "StoreRequirements.Protection": StoreRequirements.Protection.allCases,
            "SlotKind": SlotKind.allCases,
            "UnarchivedItem": [UnarchivedItem(value: secret, attributes: item.attributes)],
        ]
        samples.merge(try samplesOfStorage()) { first, _ in first }
        samples["VerifyReport"] = [try backend.verify()]
        samples["StoreFinding"] = [StoreFinding(kind: .damaged, location: "l", reason: "r")]
        samples["RotationReport"] = [try backend.rotateKeys()]
        failing.fail(with: Quoting(text: secret))
        let failed = try memory.copyItems(to: failing)
        #expect(failed.failures.values.contains { $0 is Quoting }, "the control")
        samples["TransferReport"] = [try memory.copyItems(to: backend), failed]
        samples["MigrationReport"] = [try lockboxes[0].migrate(migration, dryRun: true)]
        samples.merge(
            [
                "Accessibility": Accessibility.allCases, "ExportReport": [ExportReport()],
                "ExistingItemPolicy": ExistingItemPolicy.allCases, "ImportReport": [ImportReport()],
                "RotationReport.Postponement": RotationReport.Postponement.allCases,
                "StoreFinding.Kind": StoreFinding.Kind.allCases, "LockState": LockState.allCases,
                "MigrationRefusal": [MigrationRefusal.destinationExists],
                "FailingBackend.Operation": FailingBackend.Operation.allCases,
                "MigrationReport.Outcome": [MigrationReport.Outcome.migrated],
                "MigrationReport.Item": [MigrationReport.Item(key: "k", outcome: .absent)],
                "PasscodeStrength": PasscodeStrength.allCases, "UnlockScope": UnlockScope.allCases,
                "WritePolicy": WritePolicy.allCases,
            ],
            uniquingKeysWith: { first, _ in first }
        )
        return samples
    }

    private func batch(_ lockbox: Lockbox) throws -> LockboxBatch {
        var copy: LockboxBatch?
        try lockbox.batch { batch in
            try batch.archiveObject(secret, forKey: "k")
            copy = batch
        }
        return try #require(copy)
    }

    private func samplesOfStorage() throws -> [String: [Any]] {
        let storage = InMemoryStorage()
        let record = RecordName(name: "device-key")
        let change = RecordChange.put(record, Array(secret.utf8))
        let outcome = storage.commit([change], expecting: [:])
        var samples: [String: [Any]] = [
            "InMemoryStorage": [storage], "RecordChange": [change, RecordChange.remove(record)],
            "CommitOutcome": [outcome, CommitOutcome.conflict], "StorageLimits": [storage.limits],
            "StorageConformance": [StorageConformance.all[0]],
            "Record": try [storage.read([record], maximum: 100)[record] as Any],
        ]
        try storage.read(record, atLeast: .max, maximum: 100) {
            samples["RecordContents"] = textsOfPrinting($0)
        }
        return samples
    }

    @Test("Promise 7: no way of printing a public value shows a secret, a key or a closure")
    func noWayOfPrintingShowsASecret() throws {
        expectPrintingHides([secret, code.text], bytes: [deviceKey], in: try samples())
    }
}
