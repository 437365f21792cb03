import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A program's first look is at a keybag that somebody with the device key alone has made. Then the owner's is back.
@Suite struct ForgedFirstLookTests {
    private let store: TestStore
    private let forger: Forger
    private let owner: EncryptedFileBackend
    /// Opens the `afterFirstUnlock` classes.
    private let key = SecretUnlock.key(.bytes([UInt8](repeating: 9, count: 32)))

    init() throws {
        store = try TestStore()
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked, "after": .afterFirstUnlock])
        forger = try Forger(store)
        owner = try store.backend().setUp(recovery: RecoveryCode())
        try owner.addSlot(key, label: "a service")
    }

    /// A program that has looked at the forger's keybag.
    private func lookAt<Result>(_ forge: () throws -> Result) throws -> (EncryptedFileBackend, Result) {
        let owners = try readBytes(store.keybag)
        let forged = try forge()
        let program = store.backend(remembers: false)
        _ = try program.status()
        _ = try? program.lockbox().unarchiveObject(String.self, forKey: "k")
        store.lockForEverybody()
        try overwriteBoth(store.keybag, owners)
        return (program, forged)
    }

    enum Unlock: CaseIterable { case none, key, passcodeForTheUser }

    @Test(.needsKernelKeyring, arguments: Unlock.allCases)
    func keysThatNoUnlockOpensAreForgotten(_ unlock: Unlock) throws {
        defer { store.lockForEverybody() }
        let (program, forged) = try lookAt(forger.hideSlots)
        switch unlock {
        case .none: break
        case .key: try program.unlock(with: key)
        case .passcodeForTheUser:
            try #require(try program.unlock(.value("1234"), scope: .user) == .user)
        }
        let lockbox = try program.lockbox()
        for (name, accessibility) in [("first", nil), ("all", .whenUnlocked), ("later", .afterFirstUnlock)]
            as [(String, Accessibility?)]
        {
            let isOpen = unlock == .passcodeForTheUser || unlock == .key && name == "later"
            let error = lockboxError {
                try lockbox.archiveObject("next", forKey: name, accessibility: accessibility)
            }
            #expect(error?.code == (isOpen ? nil : .interactionNotAllowed), "\(name)")
            // Sealed with the owner's keys, if at all.
            #expect(throws: Never.self, "\(name)") {
                let next = try owner.lockbox().unarchiveObject(String.self, forKey: name)
                #expect(next == (isOpen ? "next" : nil), "\(name)")
            }
            try store.plant(at: name, naming: name, accessibility ?? .whenUnlocked, sealedWith: forged.keys)
            #expect(throws: LockboxError.self, "\(name)") {
                try lockbox.unarchiveObject(Data.self, forKey: name)
            }
        }
    }

    /// The keybag of the first look was unlocked in the kernel.
    @Test(.needsKernelKeyring, arguments: [true, false])
    func whoUnlocksItForThemselvesTrustsNoneFromBefore(hasSlot: Bool) throws {
        defer { store.lockForEverybody() }
        let (program, _) = try lookAt {
            try store.publish(forger.replaceSlots { $0.generation -= 1 }.unlockKeys)
        }
        try program.unlock(with: key)
        let lockbox = try program.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "after") == "old", "the control")
        if hasSlot {
            try store.publish(forger.replaceSlots(isLater: true).unlockKeys)
        } else {
            try forger.removeSlots()
        }
        for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock] {
            #expect(throws: LockboxError.self) {
                try lockbox.archiveObject("next", forKey: "new", accessibility: accessibility)
            }
        }
    }

    @Test func itemsAreUnderTheNamesOfTheOwner() throws {
        let (program, _) = try lookAt {
            try forger.replaceSlots { forged in
                forged.generation -= 1
                forged.keys = try forged.keys.map { ($0.id, $0.id.role == .names ? try .random() : $0.key) }
            }
        }
        try program.unlock(.value("1234"))
        #expect(try program.lockbox().unarchiveObject(forKey: "k") == "old")
        try program.lockbox().archiveObject("next", forKey: "new")
        #expect(try owner.lockbox().unarchiveObject(forKey: "new") == "next")
        #expect(try owner.lockbox().allKeys() == program.lockbox().allKeys())
    }
}
