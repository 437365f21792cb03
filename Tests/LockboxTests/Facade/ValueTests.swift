import Foundation
import Testing

@testable import Lockbox
@testable import LockboxBackup
@testable import LockboxCore
@testable import LockboxStore
import LockboxTesting

@Suite struct ValueTests {
    // MARK: Typed throws

    /// Compiles only if they throw nothing but a `LockboxError`.
    @Test func whatChecksItsArgumentsThrowsNothingElse() throws {
        func make(_ key: String) throws(LockboxError) -> Lockbox {
            let key = try ItemKey(prefix: "p", key: key)
            let value = try ArchivedValue(data: Data(), format: .data)
            let item = try StoredItem(key: key, value: value, modified: Date())
            _ = try ItemAttributes(
                accessibility: .always,
                created: item.attributes.created,
                modified: item.attributes.modified,
                size: 0,
                format: .data
            )
            return try InMemoryBackend().lockbox(key.prefix)
        }
        func configure() throws(LockboxError) -> Lockbox {
            try Lockbox.configure(keyPrefix: "")
            return try Lockbox.default
        }
        #expect(try make("k").keyPrefix == "p")
        #expect(throws: LockboxError.invalidKey(reason: "the key is empty")) { try make("") }
        #expect(throws: LockboxError.invalidKey(reason: "the key prefix is empty")) { try configure() }
    }

    // MARK: Codable

    private func coded<Value: Codable>(_ value: Value) throws -> Value {
        try JSONDecoder().decode(Value.self, from: JSONEncoder().encode(value))
    }

    @Test func keysAreCodable() throws {
        let key = try ItemKey(prefix: "com.example.app", key: "token\n")
        #expect(try coded(key) == key)
        let json = #"{"prefix":"com.example.app","key":"token\n"}"#
        #expect(try JSONDecoder().decode(ItemKey.self, from: Data(json.utf8)) == key)
    }

    @Test(arguments: ["", "\0own", String(repeating: "x", count: 4097)])
    func decodingAKeyChecksIt(_ prefix: String) throws {
        let json = try JSONEncoder().encode(["prefix": prefix, "key": "k"])
        do {
            _ = try JSONDecoder().decode(ItemKey.self, from: json)
            Issue.record("no error")
        } catch DecodingError.dataCorrupted(let context) {
            #expect((context.underlyingError as? LockboxError)?.code == .invalidKey)
        }
        let other = try JSONEncoder().encode(["prefix": "p", "key": ""])
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(ItemKey.self, from: other) }
    }

    @Test func enumsAreCodedByName() throws {
        func texts<Value: RawRepresentable & CaseIterable & Codable & Equatable>(
            _ type: Value.Type
        ) throws -> [String] where Value.RawValue == String {
            for value in Value.allCases { #expect(try coded(value) == value) }
            return Value.allCases.map(\.rawValue)
        }
        #expect(try texts(WritePolicy.self) == ["replace", "addOnly", "updateOnly"])
        #expect(try texts(ExistingItemPolicy.self) == ["keep", "replace", "fail"])
        #expect(try texts(LockState.self) == ["unprotected", "beforeFirstUnlock", "unlocked", "locked"])
        #expect(try texts(UnlockScope.self) == ["process", "user"])
        #expect(try texts(PasscodeStrength.self) == ["interactive", "moderate", "sensitive"])
        #expect(
            try texts(StoreFinding.Kind.self)
                == [
                    "damaged", "foreign", "leftover", "changing", "notReachable", "rolledBack", "interrupted",
                    "refused",
                    "unsafePermissions",
                ]
        )
        #expect(try texts(StoreRequirements.Protection.self) == ["none", "anySlot", "passcode"])
        for kind in SlotKind.allCases { #expect(try coded(kind) == kind) }
        #expect(try coded(ValueFormat(rawValue: 200)) == ValueFormat(rawValue: 200))
        #expect(try coded(LockboxError.Code.corrupt) == .corrupt)
    }

    @Test func reportsAreComparedAndCoded() throws {
        let store = try TestStore()
        let path = Path.parent(of: store.directory) + "/backup"
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("v", forKey: "k")
        try lockbox.archiveObject("v", forKey: "own", accessibility: .alwaysThisDeviceOnly)
        try overwrite(store.path("k"), [])
        let backend = store.backend()
        let verification = try backend.verify()
        #expect(try coded(verification) == verification)
        #expect(verification.findings.count == 1 && verification != VerifyReport())
        try lockbox.archiveObject("v", forKey: "k")
        let exported = try backend.exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
        #expect(try coded(exported) == exported)
        #expect(exported.excludedKeys.count == 1 && exported != ExportReport())
        let imported = try backend.importBackup(from: path, with: .passphrase(.value("p")))
        #expect(try coded(imported) == imported)
        #expect(imported != ImportReport())
        let migrated = MigrationReport(
            outcomes: [
                .init(key: "a", outcome: .migrated),
                .init(key: "b", outcome: .refused(.malformed(reason: "r"))),
            ]
        )
        #expect(try coded(migrated) == migrated)
        #expect(
            try coded(migrated)["b"] == .refused(.malformed(reason: "r"))
                && migrated != MigrationReport(outcomes: [])
        )
        #expect(try backend.rotateKeys() == backend.rotateKeys())
        let migration = Migration(nil, .string("k"))
        let report = try lockbox.migrate(migration, dryRun: true)
        #expect(try report == lockbox.migrate(migration, dryRun: true))
        #expect(try report != lockbox.migrate(Migration(nil, .string("other")), dryRun: true))
    }
}
