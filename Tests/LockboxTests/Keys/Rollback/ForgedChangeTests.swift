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

    /// Before each system call after the new keys have taken effect.
    @Test(arguments: ["setPasscode", "changePasscode", "rotateKeys"])
    func aChangeThatRetiresNothingIsNotSaidToBeDone(_ change: String) throws {
        var (number, refused) = (0, 0)
        while true {
            number += 1
            let passcode = change == "setPasscode" ? nil : "1234"
            let (store, forger) = try prepare(passcode: passcode)
            let owners = Protected<[UInt8]>([])
            let interruption = Interruption(at: number) { [store] in
                try? owners.withLock { $0 = try readBytes(store.keybag) }
                _ = try? forger.replaceSlots { $0.endRotation(leaving: []) }
            }
            let generation = try store.openedKeybag().generation
            let raise = SystemCalls.atEachGeneration(of: store) { number, _ in
                if number == generation + 2 { interruption.raise() }
            }
            let program = store.backend(
                SystemCalls { call in
                    _ = raise.fault?(call)
                    interruption.call()
                    return nil
                }
            )
            if let passcode { try program.unlock(.value(passcode)) }
            let (new, strength) = (PasscodeSource.value("5678"), PasscodeStrength.interactive)
            let report: RotationReport?
            switch change {
            case "setPasscode": report = try? program.setPasscode(new, strength: strength)
            case "changePasscode": report = try? program.changePasscode(to: new, strength: strength)
            default: report = try? program.rotateKeys()
            }
            // The program may have replaced it with its own.
            if try store.openedKeybag().slots.map(\.kind) == [.recoveryCode] {
                try overwrite(store.keybag, owners.withLock { $0 })
            }
            if report?.isComplete ?? false {
                #expect(try !store.openedKeybag().isRotating, "before call \(number)")
            } else {
                refused += 1
            }
            let named = report?.unreadableItems.map(\.location) ?? []
            #expect(!named.contains { $0.hasPrefix("\(store.directory)/items") }, "before call \(number)")
            if !interruption.hasHappened { break }
        }
        #expect(refused > 3)
    }

    /// After the last rename. The secret that was removed opens what the first stage seals.
    @Test(.needsKernelKeyring, arguments: [true, false])
    func aRemovalThatIsHiddenIsNotSaidToBeDoneAndIsRemembered(resealing: Bool) throws {
        let kernel = KernelKeyring()
        let seen = SeenGeneration(kernel: kernel, name: "lockbox-tests:\(UInt64.random(in: .min ... .max))")
        defer { _ = try? kernel.remove(seen.name) }
        let (store, forger) = try prepare(passcode: "1234", RecoveryCode())
        let generation = try store.openedKeybag().generation
        let (items, first) = ("\(store.directory)/items", Protected<[UInt8]>([]))
        let calls = SystemCalls.atEachGeneration(of: store) { number, keybag in
            if number == generation + 1 { first.withLock { $0 = keybag } }
            guard number == generation + 2 else { return }
            _ = try? forger.replaceSlots { if resealing { $0.endRotation(leaving: []) } }
            // Nothing is resealed, and nothing is missed.
            if resealing { rename(items, "\(items)-aside") }
        }
        let program = store.backend(calls, seen: seen)
        try program.unlock(.value("1234"))
        let code = try #require(try program.slots.last)
        #expect(throws: LockboxError.self) { try program.removeSlot(code.id, resealing: resealing) }
        if resealing {
            try? FileManager.default.removeItem(atPath: items)
            try #require(rename("\(items)-aside", items) == 0)
        }
        try overwrite(store.keybag, first.withLock { $0 })
        expectError(.rolledBack) { try store.backend(seen: seen).unlock(.value("1234")) }
        expectError(.rolledBack) { try program.lockbox().archiveObject("next", forKey: "new") }
    }
}
