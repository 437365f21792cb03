import Configuration
import GRDB
import Hummingbird
import Logging
import Testing

import Lockbox

/// An app that imports packages like these writes every name of Lockbox without `Lockbox.` before it.
@Suite struct NamesTests {
    @Test func noNameIsAmbiguous() throws {
        let types: [Any.Type] = [
            Accessibility.self, ArchivedValue.self, AttributeChange<String>.self, DeviceKeySource.self,
            EncryptedFileBackend.self, ExistingItemPolicy.self, Expiry.self, ExportReport.self,
            (any GenerationCounter).self, ImportReport.self, InMemoryBackend.self, InternetPassword.self,
            ItemAttributes.self, ItemChanges.self, ItemKey.self, ItemList.self, ItemOperation.self,
            LockState.self, Lockbox.self, (any LockboxBackend).self, LockboxBatch.self,
            LockboxChange.self, LockboxError.self, LockboxKey<String>.self,
            Migration.self,
            MigrationRefusal.self, MigrationReport.self, MigrationSource.self, PasscodeSource.self,
            PasscodeStrength.self, RecoveryCode.self, RotationReport.self, SealedBackend.self,
            SecretUnlock.self,
            SlotEnrollment.self, SlotKind.self, StoreFinding.self, StoreProgress.self, (any StoreReport).self,
            StoreRequirements.self, StoreStatus.self, StoredItem.self, TransferReport.self,
            UnarchivedItem<String>.self, (any UnlockMethod).self, UnlockScope.self, UnlockSlot.self,
            UnreadableItem.self, (any ValueCoder).self, ValueFormat.self, VerifyReport.self,
            WriteOptions.self,
            WritePolicy.self,
        ]
        #expect(
            Set(types.map(ObjectIdentifier.init)).count == types.count - 1,
            "EncryptedFileBackend is an alias"
        )
    }

    /// The names of the others stay usable, too.
    @Test func theyWorkTogether() throws {
        let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: InMemoryBackend())
        try lockbox.archiveObject("secret", forKey: "token", accessibility: .afterFirstUnlock)
        let database = try DatabaseQueue()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("keys") { try $0.create(table: "key") { $0.primaryKey("name", .text) } }
        try migrator.migrate(database)
        try database.write { try $0.execute(sql: "INSERT INTO key VALUES (?)", arguments: ["token"]) }
        let key = try #require(try database.read { try String.fetchOne($0, sql: "SELECT name FROM key") })
        #expect(try lockbox.unarchiveObject(forKey: key) == "secret")
        Logger(label: "names").debug("\(key)")
        let router = Router(context: BasicRequestContext.self)
        router.get(RouterPath(key)) { _, _ in key }
        #expect(router.routes.count == 1)
        #expect(ConfigReader(provider: InMemoryProvider(values: [:])).string(forKey: "token") == nil)
    }
}
