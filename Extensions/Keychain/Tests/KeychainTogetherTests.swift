@testable import LockboxKeychainTesting
import Foundation
import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxKeychain

/// Items that other devices share, and changes of several items.
@Suite struct KeychainTogetherTests {
    private let keychain = KeychainSimulator(platform: .macOS)
    private var backend: KeychainBackend { KeychainBackend(keychain) }

    /// The items in the Keychain, as any program sees them.
    private var stored: [KeychainCalls.Attributes] {
        keychain.copyMatching([
            "class": .text("genp"), "nleg": .bool(true), "sync": .text("syna"),
            "m_Limit": .text("m_LimitAll"),
            "r_Attributes": .bool(true),
        ]).items
    }

    @Test(arguments: BackendConformance.all)
    func conformsWithiCloudKeychain(_ requirement: BackendConformance) throws {
        try requirement.check { KeychainBackend(KeychainSimulator(), isSynchronizable: true) }
    }

    @Test func theSameApplication() throws { try SameApplication.run(on: KeychainBackend(keychain)) }

    @Test func aMovedItemIsAlwaysUnderOneKey() throws {
        try OneStep.aMovedItemIsAlwaysUnderOneKey(on: backend) {
            try backend.attributes(prefix: $0[0].prefix, now: nil).count
        }
    }

    @Test func ofManyWhoMoveAnItemOneDoes() throws { try OneStep.ofManyWhoMoveAnItemOneDoes(on: backend) }

    @Test func aRefusedBatchChangesNothing() throws { try OneStep.aRefusedBatchChangesNothing(on: backend) }

    // MARK: iCloud Keychain

    @Test func iCloudKeychainIsADestination() throws {
        let cloud = KeychainBackend(keychain, isSynchronizable: true)
        let lockbox = try cloud.lockbox("p")
        let source = InMemoryBackend()
        try source.lockbox("old").archiveObject("v", forKey: "k")
        let migration = Migration("m", from: .backend(source, keyPrefix: "old"), .string("k"))
        #expect(try lockbox.migrate(migration).isComplete)
        #expect(try lockbox.migrate(migration).isComplete, "its record is found")
        try backend.lockbox("p").archiveObject("here", forKey: "local")
        let report = try backend.moveItems(to: cloud)
        #expect(report.isComplete && report.transferredKeys.count == 1)
        #expect(try lockbox.allKeys() == ["k", "local"])
        try lockbox.checkAccess()
        #expect(stored.filter { $0["sync"] == .int(1) }.count == 2, "Lockbox's own record stays here")
        #expect(throws: LockboxError.self) {
            try cloud.moveItems(to: KeychainBackend(keychain, isSynchronizable: true))
        }
    }

    // MARK: Batches

    /// Each is refused before anything is changed.
    @Test(arguments: ["passcode", "foreign", "locked", "nil"])
    func aBatchThatIsRefusedChangesNothing(_ way: String) throws {
        let lockbox = try backend.lockbox("p")
        try lockbox.archiveObject("old", forKey: "there", accessibility: .always)
        if way == "nil" { try lockbox.archiveObject("old", forKey: "k") }
        switch way {
        case "passcode": keychain.hasPasscode = false
        case "foreign":
            let foreign: KeychainCalls.Attributes = [
                "class": .text("genp"), "nleg": .bool(true), "svce": .text("p"), "acct": .text("k"),
            ]
            #expect(keychain.add(foreign) == 0)
        default: keychain.isLocked = true
        }
        #expect(throws: LockboxError.self) {
            try lockbox.batch {
                try $0.archiveObject("new", forKey: "there")
                try $0.archiveObject("new", forKey: "other", options: WriteOptions(accessibility: .always))
                let accessibility: Accessibility =
                    way == "passcode" ? .whenPasscodeSetThisDeviceOnly : .whenUnlocked
                try $0.archiveObject(
                    way == "nil" ? nil : "new",
                    forKey: "k",
                    options: WriteOptions(accessibility: accessibility)
                )
            }
        }
        keychain.isLocked = false
        #expect(try lockbox.unarchiveObject(forKey: "there") == "old")
        #expect(try lockbox.allKeys() == (way == "nil" ? ["there", "k"] : ["there"]))
    }

    // MARK: Moves

    @Test func aMoveInTheKeychainKeepsWhatAnotherProgramWrites() throws {
        let keychain = KeychainSimulator()
        let other = try KeychainBackend(keychain).lockbox("com.example")
        try other.archiveObject("old", forKey: "a")
        let isDone = Protected(false)
        let calls = InterruptedKeychain(keychain: keychain) { call in
            // Between the read and the move.
            guard call == .update, isDone.raise() else { return nil }
            #expect(throws: Never.self) { try other.archiveObject("newer", forKey: "a") }
            return nil
        }
        let lockbox = try KeychainBackend(calls).lockbox("com.example")
        try lockbox.moveObject(forKey: "a", toKey: "b")
        #expect(try lockbox.unarchiveObject(forKey: "b") == "newer")
        #expect(try lockbox.allKeys() == ["b"])
    }

    /// The Keychain cannot rename an item over another.
    @Test func aMoveInTheKeychainThatReplacesTakesTwoSteps() throws {
        let keychain = KeychainSimulator()
        let lockbox = try KeychainBackend(keychain).lockbox("com.example")
        try lockbox.archiveObject("new", forKey: "a")
        try lockbox.archiveObject("old", forKey: "b")
        try lockbox.moveObject(forKey: "a", toKey: "b", policy: .replace)
        #expect(try lockbox.allKeys() == ["b"] && lockbox.unarchiveObject(forKey: "b") == "new")
        // Another program's item is not replaced.
        let foreign: KeychainCalls.Attributes = [
            "class": .text("genp"), "svce": .text("com.example"), "acct": .text("foreign"),
        ]
        #expect(keychain.add(foreign) == 0)
        expectError(.keychainFailure) { try lockbox.moveObject(forKey: "b", toKey: "foreign") }
        #expect(try lockbox.unarchiveObject(forKey: "b") == "new")
    }
}
