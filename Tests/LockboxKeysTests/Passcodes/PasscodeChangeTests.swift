import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Other processes while a passcode is set, changed or removed, and the leftovers of a kill.
@Suite(.serialized) struct PasscodeChangeTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    /// A backend that was open before, and writes after: as another process would.
    @Test func changesByOtherProcesses() throws {
        let one = try store.backend().setUp(items: .everyClass)
        let other = store.backend()
        try other.unlock(.value("1234"))
        try one.changePasscode(to: .value("5678"), strength: .interactive)
        for accessibility in Accessibility.allCases {
            func write() throws {
                try other.lockbox().archiveObject(
                    "newer",
                    forKey: accessibility.rawValue,
                    accessibility: accessibility
                )
            }
            switch accessibility {
            case .always, .alwaysThisDeviceOnly:
                try write()
                #expect(try one.lockbox().unarchiveObject(forKey: accessibility.rawValue) == "newer")
            default:
                expectError(.interactionNotAllowed, "unlocked with the old passcode") { try write() }
                #expect(try one.lockbox().unarchiveObject(forKey: accessibility.rawValue) == "old")
                expectError(.interactionNotAllowed) {
                    try other.lockbox().unarchiveObject(String.self, forKey: accessibility.rawValue)
                }
            }
        }
        try other.unlock(.value("5678"))
        try other.lockbox().archiveObject(
            "newer",
            forKey: "akpu",
            accessibility: .whenPasscodeSetThisDeviceOnly
        )
        #expect(try one.lockbox().unarchiveObject(forKey: "akpu") == "newer")

        try one.removePasscode()
        #expect(throws: LockboxError.passcodeNotSet) {
            try other.lockbox().archiveObject(
                "lost?",
                forKey: "akpu",
                accessibility: .whenPasscodeSetThisDeviceOnly
            )
        }
        try one.setPasscode(.value("9"), strength: .interactive)
        expectError(.interactionNotAllowed, "not sealed with the key that was destroyed") {
            try other.lockbox().archiveObject(
                "lost?",
                forKey: "akpu",
                accessibility: .whenPasscodeSetThisDeviceOnly
            )
        }
        #expect(try one.lockbox().unarchiveObject(String.self, forKey: "akpu") == nil)
    }

    @Test func aLockIsNotUndoneByAChangedKeybag() throws {
        let one = try store.backend().setUp(items: .everyClass)
        let other = store.backend()
        try other.unlock(.value("1234"))
        try other.lock()
        try one.changePasscode(to: .value("5678"), strength: .interactive)
        expectError(.interactionNotAllowed) {
            try other.lockbox().archiveObject("new", forKey: "ck", accessibility: .afterFirstUnlock)
        }
        #expect(try other.lockState == .beforeFirstUnlock)
        expectError(.interactionNotAllowed) { try other.lockbox().unarchiveObject(String.self, forKey: "ak") }
    }

    @Test func whatAnotherProcessWritesUnderTheNextPasscodeStays() throws {
        try store.backend().setUp(items: .everyClass)
        let other = store.backend()
        let renames = Protected(0)
        let backend = store.backend(
            SystemCalls(fault: { call in
                // The keys and their copies are written, and their lock let go: next is the lock of the items that are to go.
                guard
                    renames.withLock({
                        $0 += call == .rename ? 1 : 0; return $0 == 6 && call == .flock
                    })
                else {
                    return nil
                }
                renames.withLock { $0 += 1 }
                let written = lockboxError {
                    try other.setPasscode(.value("5678"), strength: .interactive, resealing: false)
                    try other.lockbox().archiveObject(
                        "new",
                        forKey: "akpu",
                        accessibility: .whenPasscodeSetThisDeviceOnly
                    )
                }
                #expect(written == nil)
                return nil
            })
        )
        try backend.unlock(.value("1234"))
        try backend.removePasscode()
        #expect(renames.withLock { $0 } >= 7)
        #expect(try other.lockbox().unarchiveObject(forKey: "akpu") == "new")
    }

    /// Like a kill, a failure between the new keybag and the removal leaves items that nothing opens.
    @Test func anInterruptedRemovalOfThePasscodeIsCarriedOn() throws {
        try store.backend().setUp(items: .everyClass)
        let isChanged = Protected(false)
        let backend = store.backend(
            SystemCalls(fault: { call in
                if call == .rename { isChanged.withLock { $0 = true } }
                return call == .unlink && isChanged.withLock { $0 } ? .failure(EIO) : nil
            })
        )
        try backend.unlock(.value("1234"))
        expectError(.storageFailure) { try backend.removePasscode() }
        let path = try store.path("akpu")
        #expect(FileManager.default.fileExists(atPath: path))
        #expect(throws: LockboxError.passcodeNotSet) { try store.backend().removePasscode() }
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(try store.lockbox().allKeys().count == Accessibility.allCases.count - 1)
    }

    /// From the first stage on, the store may have the new keys.
    @Test(arguments: ["change", "remove", "rotate"])
    func aChangeThatCannotReadHalfWayDoesNotSayThatNothingWasChanged(_ operation: String) throws {
        try store.backend().setUp(passcode: "old", items: ["ak": .whenUnlocked])
        let generation = try store.openedKeybag().generation
        var (number, failed) = (Interruption.start, 0)
        while true {
            number += Interruption.stride
            let (copy, left) = (try TestStore(copying: store), Protected(-1))
            let backend = copy.backend(
                SystemCalls { call in
                    guard [.open, .stat, .read].contains(call) else { return nil }
                    return left.withLock { left in
                        left -= 1
                        return left == 0
                    } ? .failure(EIO) : nil
                }
            )
            try backend.unlock(.value("old"))
            left.withLock { $0 = number }
            let error = lockboxError {
                switch operation {
                case "change": try backend.changePasscode(to: .value("new"), strength: .interactive)
                case "remove": try backend.removePasscode()
                default: try backend.rotateKeys()
                }
            }
            let isChanged = try copy.openedKeybag().generation != generation
            if let error, isChanged {
                failed += 1
                #expect(!error.saysNothingWasChanged, "call \(number): \(error)")
            }
            if left.withLock({ $0 }) > 0 { break }
        }
        #expect(failed > 3 / Interruption.stride)
    }

    /// The keybag is another one than the passcode was checked with, but its owner's.
    @Test(arguments: [true, false]) func aChangeBesideAnotherOneIsAConflict(isRemoved: Bool) throws {
        let (one, other) = (try store.backend().setUp(passcode: "old"), store.backend())
        try other.unlock(.value("old"))
        let new = PasscodeSource.closure {
            if isRemoved {
                try other.removePasscode(.value("old"))
            } else {
                try other.changePasscode(from: .value("old"), to: .value("other"), strength: .interactive)
            }
            return Array("new".utf8)
        }
        expectError(.conflict) {
            try one.changePasscode(from: .value("old"), to: new, strength: .interactive)
        }
        #expect(try store.backend().lockState == (isRemoved ? .unprotected : .beforeFirstUnlock))
    }

    /// At some call the lock is gone, because its file is removed or cannot be looked at, and another process changes the passcode.
    @Test(arguments: [false, true]) func aLockThatIsLostLosesNoStore(isRemoved: Bool) throws {
        try store.backend().setUp(passcode: "old")
        for number in 1... {
            let store = try TestStore(copying: store)
            let (other, lock) = (store.backend(), "\(store.directory)/lock")
            try other.unlock(.value("old"))
            let left = Protected(-1)
            let calls = SystemCalls { kind in
                if kind != .stat { return nil }
                let isNext = left.withLock { left in
                    left -= 1
                    return left == 0
                }
                guard isNext else { return nil }
                try? FileManager.default.removeItem(atPath: lock)
                _ = try? other.changePasscode(
                    from: .value("old"),
                    to: .value("other"),
                    strength: .interactive
                )
                return isRemoved ? nil : .failure(EIO)
            }
            let backend = store.backend(calls)
            try backend.unlock(.value("old"))
            left.withLock { $0 = number }
            _ = try? backend.changePasscode(from: .value("old"), to: .value("new"), strength: .interactive)
            let opened = ["old", "new", "other"].filter { (try? store.backend().unlock(.value($0))) != nil }
            #expect(opened.count == 1, "call \(number)")
            if left.withLock({ $0 }) > 0 {
                #expect(number > 10)
                break
            }
        }
    }
}
