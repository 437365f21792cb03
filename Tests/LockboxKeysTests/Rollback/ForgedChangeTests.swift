import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Somebody who has the device key, but no passcode, puts a keybag of their own in place while a program changes the keys. Then
/// the owner's is back.
@Suite struct ForgedChangeTests {
    /// A store with a passcode, or one that is about to get it.
    private func prepare(passcode: String?, _ code: RecoveryCode? = nil) throws -> (TestStore, Forger) {
        let store = try TestStore()
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let forger = try Forger(store)
        if passcode != nil || code != nil { try store.backend().setUp(passcode: passcode, recovery: code) }
        return (store, forger)
    }

    /// Counts calls from the one after the last rename of a change.
    private func calls(
        of store: TestStore,
        after generation: UInt64,
        _ interruptions: [Interruption]
    ) -> SystemCalls {
        let changes = SystemCalls.atEachGeneration(of: store) { number, _ in
            if number == generation + 2 { interruptions.forEach { $0.raise() } }
        }
        return SystemCalls { call in
            _ = changes.fault?(call)
            interruptions.forEach { $0.call() }
            return nil
        }
    }

    private func make(_ change: String, _ program: EncryptedFileBackend) throws -> RotationReport {
        switch change {
        case "setPasscode": try program.setPasscode(.value("5678"), strength: .interactive)
        case "changePasscode": try program.changePasscode(to: .value("5678"), strength: .interactive)
        default: try program.rotateKeys()
        }
    }

    /// Before each system call after the new keys have taken effect.
    ///
    /// - Parameter length: After how many calls the owner's is back; the forger's has its generation then. Nil, after the change.
    @Test(arguments: ["setPasscode", "changePasscode", "rotateKeys"], [nil, 40])
    func aChangeThatRetiresNothingIsNotSaidToBeDone(_ change: String, _ length: Int?) throws {
        let old = change == "setPasscode" ? nil : "1234"
        let (original, first) = try prepare(passcode: old)
        let generation = try original.openedKeybag().generation
        var (number, refused) = (Interruption.start, 0)
        while true {
            number += Interruption.stride
            let store = try TestStore(copying: original)
            var forger = first
            forger.store = store
            let owners = Protected<[UInt8]>([])
            // Unless the program has replaced it.
            let putBack = { @Sendable [store] in
                if try store.openedKeybag().slots.map(\.kind) == [.recoveryCode] {
                    try overwriteBoth(store.keybag, owners.withLock { $0 })
                }
            }
            let forging = Interruption(at: number) { [store, forger] in
                try? owners.withLock { $0 = try readBytes(store.keybag) }
                _ = try? forger.replaceSlots {
                    $0.closeOlderEpochs(listing: nil) { _ in false }
                    if length != nil { $0.generation -= 1 }
                }
            }
            let end = Interruption(at: number + (length ?? 1_000_000)) { try? putBack() }
            let program = store.backend(calls(of: store, after: generation, [end, forging]))
            if let old { try program.unlock(.value(old)) }
            let report = try? make(change, program)
            try putBack()
            if report?.isComplete ?? false {
                #expect(try !store.openedKeybag().isRotating, "before call \(number)")
            } else {
                refused += 1
            }
            let named = report?.unreadableItems.map(\.location) ?? []
            #expect(!named.contains { $0.hasPrefix("\(store.directory)/items") }, "before call \(number)")
            let other = store.backend(remembers: false)
            try other.unlock(.value(change == "rotateKeys" ? "1234" : "5678"))
            let item = try? other.lockbox().unarchiveObject(String.self, forKey: "k")
            #expect(item == "old", "before call \(number)")
            if !forging.hasHappened { break }
        }
        // Otherwise it may have tried again, and be done.
        if length == nil { #expect(refused > 3 / Interruption.stride) }
    }

    /// After the last rename. The secret that was removed opens what the first stage seals.
    @Test(.needsKernelKeyring, arguments: [true, false])
    func aRemovalThatIsHiddenIsNotSaidToBeDoneAndIsRemembered(resealing: Bool) throws {
        let (store, forger) = try prepare(passcode: "1234", RecoveryCode())
        let generation = try store.openedKeybag().generation
        let (items, first) = ("\(store.directory)/items", Protected<[UInt8]>([]))
        let calls = SystemCalls.atEachGeneration(of: store) { number, keybag in
            if number == generation + 1 { first.withLock { $0 = keybag } }
            guard number == generation + 2 else { return }
            _ = try? forger.replaceSlots { if resealing { $0.closeOlderEpochs(listing: nil) { _ in false } } }
            // Nothing is resealed, and nothing is missed.
            if resealing { rename(items, "\(items)-aside") }
        }
        let program = store.backend(calls)
        try program.unlock(.value("1234"))
        let code = try #require(try program.slots.last)
        #expect(throws: LockboxError.self) { try program.removeSlot(code.id, resealing: resealing) }
        if resealing {
            try? FileManager.default.removeItem(atPath: items)
            try #require(rename("\(items)-aside", items) == 0)
        }
        try overwriteBoth(store.keybag, first.withLock { $0 })
        expectError(.rolledBack) { try store.backend().unlock(.value("1234")) }
        expectError(.rolledBack) { try program.lockbox().archiveObject("next", forKey: "new") }
    }
}
