import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A store is replaced while no program has it open.
@Suite struct ReplacedStoreTests {
    private let store: TestStore
    private let code = RecoveryCode()

    init() throws { store = try TestStore() }

    private var identity: String {
        get throws { try #require(try store.backend().status()?.identity) }
    }

    private func expectRefused(
        _ code: LockboxError.Code,
        _ program: EncryptedFileBackend,
        _ comment: Comment,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let (lockbox, before) = (try program.lockbox(), try store.snapshot())
        for call in [
            { _ = try lockbox.unarchiveObject(String.self, forKey: "k") },
            { try lockbox.archiveObject("next", forKey: "new", accessibility: .always) },
            { try program.unlock(.value("1234")) },
        ] as [() throws -> Void] {
            let error = lockboxError(call)
            #expect(error?.code == code, comment, sourceLocation: sourceLocation)
        }
        #expect(try store.snapshot() == before, comment, sourceLocation: sourceLocation)
    }

    // MARK: Write access alone

    enum Replacement: CaseIterable {
        case ofSameID, ofSameIDAndLater, another, none
    }

    /// The attacker has no key. The store's ID is in the keybag's clear header.
    private func replace(_ replacement: Replacement) throws {
        let header = try readBytes(store.keybag).withUnsafeBytes { try KeybagHeader($0) }
        try FileManager.default.removeItem(atPath: "\(store.directory)/items")
        if replacement == .none {
            try removeBoth(store.keybag)
            return try removeBoth(store.deviceKey)
        }
        var contents = try KeybagContents(replacement == .another ? .random() : header.storeID)
        if replacement != .ofSameID { contents.generation = header.generation + 7 }
        if replacement != .ofSameID { contents.epoch = 50; try contents.beginEpoch() }
        let deviceKey = try SecretKey.random()
        try overwriteBoth(store.deviceKey, DeviceKeyRecord.encoded([deviceKey]))
        try overwriteBoth(store.keybag, contents.encoded(deviceKey: deviceKey))
    }

    @Test(arguments: Replacement.allCases) func aReplacedStoreIsRefusedAfterARestart(
        _ replacement: Replacement
    ) throws {
        try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        let (identity, items) = (try identity, "\(store.directory)-items")
        try FileManager.default.copyItem(atPath: "\(store.directory)/items", toPath: items)
        let owners = try store.keyFiles()
        try replace(replacement)
        let known: LockboxError.Code =
            switch replacement {
            case .ofSameID, .none: .rolledBack
            case .ofSameIDAndLater: .authenticationFailed
            case .another: .storeReplaced
            }
        try expectRefused(known, store.backend(), "remembered")
        try expectRefused(
            .requirementNotMet,
            store.backend(requires: .init(identity: identity), remembers: false),
            "required"
        )
        // The control: nothing tells a program that knows nothing.
        let unaware = try store.backend(remembers: false).lockbox()
        #expect(try unaware.unarchiveObject(String.self, forKey: "k") == nil)
        try unaware.archiveObject("next", forKey: "new")
        // The owner's is back.
        try? FileManager.default.removeItem(atPath: "\(store.directory)/items")
        try FileManager.default.copyItem(atPath: items, toPath: "\(store.directory)/items")
        try store.putBack(owners)
        let program = store.backend()
        try program.unlock(.value("1234"))
        #expect(try program.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    /// Its owner has made another one.
    @Test(arguments: [Replacement.ofSameIDAndLater, .another, .none])
    func aReplacedStoreIsAccepted(_ replacement: Replacement) throws {
        try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        try replace(replacement)
        #expect(throws: LockboxError.self) { try store.backend().lockbox().allKeys() }
        #expect(try store.backend().acceptRestored().isComplete)
        try store.backend().lockbox().archiveObject("next", forKey: "k")
        #expect(try store.backend().lockbox().unarchiveObject(forKey: "k") == "next")
    }

    /// The user locks while another store, or none, is in the place.
    @Test(.needsKernelKeyring, arguments: [Replacement.another, .none])
    func aLockReachesTheStoreThatWasUnlockedHere(_ replacement: Replacement) throws {
        try store.backend().setUp(items: ["k": .whenUnlocked], scope: .user)
        defer { store.lockForEverybody() }
        let owners = try store.keyFiles()
        try replace(replacement)
        // It may say that the store was replaced.
        try? store.backend().lock()
        try store.putBack(owners)
        #expect(try store.backend().lockState == .locked)
    }
}
