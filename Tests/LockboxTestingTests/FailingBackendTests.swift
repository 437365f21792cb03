import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxTesting

/// The calls that it passes on, beside those that the conformance suite makes.
@Suite struct FailingBackendTests {
    private let wrapped = DefectiveBackend(nil)

    private func key(_ name: String) throws -> ItemKey { try ItemKey(prefix: "p", key: name) }

    private func write(_ name: String) throws {
        let value = try ArchivedValue(data: Data(name.utf8), format: .data)
        try wrapped.write(StoredItem(key: key(name), value: value, modified: Date()), policy: .replace)
    }

    @Test func limitsAreThoseOfTheWrappedBackend() {
        #expect(FailingBackend(wrapped).maximumValueSize == 100_000)
    }

    /// In one step, as the wrapped backend makes it, and one failure.
    @Test func aMoveIsPassedOn() throws {
        let backend = FailingBackend(DefectiveBackend(.movesACopy))
        let value = try ArchivedValue(data: Data(), format: .data)
        try backend.write(StoredItem(key: key("old"), value: value, modified: Date()), policy: .replace)
        backend.fail(.write, times: 1, with: LockboxError.userCanceled)
        #expect(throws: LockboxError.userCanceled) {
            try backend.move(key("old"), to: key("new"), policy: .addOnly, now: Date())
        }
        try backend.move(key("old"), to: key("new"), policy: .addOnly, now: Date())
        #expect(try backend.item(for: key("old"), now: nil) != nil)
    }

    @Test func severalValuesAreOneRead() throws {
        for name in ["a", "b"] { try write(name) }
        let backend = FailingBackend(wrapped)
        backend.fail(.read, times: 1, with: LockboxError.userCanceled)
        #expect(throws: LockboxError.userCanceled) {
            try backend.values(for: [key("a"), key("b")], now: nil)
        }
        #expect(try backend.values(for: [key("a"), key("b")], now: nil).count == 2)
    }

    @Test func capabilitiesArePassedOn() throws {
        let backend: any LockboxBackend = FailingBackend(wrapped)
        try write("damaged")
        wrapped.damage(try key("damaged"))
        #expect(try backend.lockState == .unprotected)
        #expect(try backend.location(of: key("damaged")) == wrapped.record(of: key("damaged")))
        #expect(try backend.verify { _ in }.findings.count == 1)
        try backend.remove(record: wrapped.record(of: key("damaged")))
        #expect(try wrapped.item(for: key("damaged"), now: nil) == nil)
        let synchronizing = FailingBackend(DefectiveBackend(.synchronizesOnlyItems))
        expectError(.missing) { try synchronizing.synchronize(prefix: "p") }
    }

    @Test func capabilitiesThatTheWrappedBackendLacksAreNotSupported() throws {
        let backend = FailingBackend(CountingBackend())
        expectError(.notSupported) { try backend.lockState }
        expectError(.notSupported) { try backend.verify { _ in } }
        expectError(.notSupported) { try backend.remove(record: "r") }
        expectError(.notSupported) { try backend.quarantine(record: "r") }
        expectError(.notSupported) { try backend.subscribe(prefix: "p") { _ in } }
        expectError(.notSupported) { try backend.synchronize(prefix: "p") }
        #expect(try backend.location(of: key("k")) == nil)
    }

    @Test func everyCapabilityFailsOnDemand() {
        let backend = FailingBackend(wrapped)
        backend.fail(with: LockboxError.userCanceled)
        let calls: [() throws -> Void] = [
            { _ = try backend.lockState }, { _ = try backend.verify { _ in } },
            { try backend.remove(record: "record") },
            { try backend.quarantine(record: "record") }, { try backend.synchronize(prefix: "p") },
            { _ = try backend.subscribe(prefix: "p") { _ in } },
            { try backend.checkForForeignItem(ItemKey(prefix: "p", key: "k")) },
        ]
        for call in calls { #expect(throws: LockboxError.userCanceled, performing: call) }
    }

    /// Whatever the app calls to store something, and what it stored before stays.
    @Test func onAFullDiskNothingIsStored() throws {
        let backend = FailingBackend(wrapped)
        let lockbox = try Lockbox(keyPrefix: "p", backend: backend)
        try lockbox.archiveObject(1, forKey: "k")
        let full = LockboxError.storageFailure(operation: "write", path: "/", errno: ENOSPC)
        backend.fail(.write, with: full)
        let calls: [() throws -> Void] = [
            { try lockbox.archiveObject(2, forKey: "k") },
            { try lockbox.update("k", as: Int.self) { $0 = 2 } },
            { try lockbox.setAttributes(WriteOptions(label: "l"), forKey: "k") },
            { try lockbox.copyObject(forKey: "k", toKey: "copy") },
            { try lockbox.moveObject(forKey: "k", toKey: "moved") },
            { try lockbox.batch { try $0.archiveObject(2, forKey: "other") } },
        ]
        for call in calls { #expect(throws: full, performing: call) }
        #expect(try wrapped.attributes(prefix: "p", now: nil).keys.map(\.key) == ["k"])
        #expect(
            try lockbox.unarchiveObject(forKey: "k") == 1 && lockbox.attributes(forKey: "k")?.label == nil
        )
        try lockbox.batch { try $0.removeObject(forKey: "k") }
        #expect(try lockbox.allKeys() == [], "removing needs no room")
    }

    /// On a store, both read the item.
    @Test func aLockedItemIsNeitherUpdatedNorMoved() throws {
        let backend = FailingBackend(wrapped)
        let lockbox = try Lockbox(keyPrefix: "p", backend: backend)
        try lockbox.archiveObject(1, forKey: "k")
        let locked = LockboxError.interactionNotAllowed(.whenUnlocked)
        backend.fail(.read, with: locked)
        #expect(throws: locked) { try lockbox.update("k", as: Int.self) { $0 = 2 } }
        #expect(throws: locked) { try lockbox.moveObject(forKey: "k", toKey: "moved") }
    }

    @Test(arguments: 0..<3) func theNthCallFails(_ count: Int) throws {
        let backend = FailingBackend(wrapped)
        let lockbox = try Lockbox(keyPrefix: "p", backend: backend)
        backend.fail(.write, after: count, times: 1, with: LockboxError.userCanceled)
        for number in 0..<count { try lockbox.archiveObject(number, forKey: "k") }
        #expect(throws: LockboxError.userCanceled) { try lockbox.archiveObject(-1, forKey: "k") }
        try lockbox.archiveObject(count, forKey: "k")
        #expect(try lockbox.unarchiveObject(forKey: "k") == count)
    }

    /// The compiler does not say so: most requirements have a default implementation.
    @Test func noRequirementIsForgotten() throws {
        let source = try source("LockboxCore/Backend/LockboxBackend.swift")
        let body = try #require(source.firstMatch(of: /(?s)\npublic protocol LockboxBackend.*?\n}/)).0
        let requirements = body.matches(of: /\n    ((?:func \w+\((?:\w+|\))?|var \w+))/).map { String($0.1) }
        #expect(requirements.count >= 25)
        let backend = try self.source("LockboxTesting/FailingBackend.swift")
        #expect(requirements.filter { !backend.contains("\n    public \($0)") } == [])
    }

    private func source(_ path: String) throws -> String {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardizedFileURL
        return try String(contentsOf: root.appendingPathComponent("Sources/\(path)"), encoding: .utf8)
    }

    /// Its lock state is not known, so a locked class is noticed when an item is written.
    @Test func aMigrationGoesOnWithoutALockState() throws {
        let lockbox = try Lockbox(keyPrefix: "p", backend: FailingBackend(CountingBackend()))
        let migration = Migration("m", from: .items(["k": Data("v".utf8)]), .string("k"))
        #expect(try lockbox.migrate(migration).isComplete)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "v")
    }
}
