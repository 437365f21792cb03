import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Old keys, in a copy of the store, and what has been written since.
@Suite struct RevocationTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    /// Puts the items that are there now into a copy of the store as it was, and counts those that open.
    private func openable(in old: TestStore, _ method: (any UnlockMethod)? = nil) throws -> Int {
        let copy = try TestStore(copying: old)
        try FileManager.default.removeItem(atPath: "\(copy.directory)/items")
        try FileManager.default.copyItem(
            atPath: "\(store.directory)/items",
            toPath: "\(copy.directory)/items"
        )
        let backend = copy.backend()
        if let method { try backend.unlock(with: method) }
        var count = 0
        for key in Accessibility.allCases.map(\.rawValue) + ["later"] {
            if (try? backend.lockbox().unarchiveObject(String.self, forKey: key)) != nil { count += 1 }
        }
        return count
    }

    @Test(arguments: ["set", "change", "remove", "rotate", "add", "remove slot"])
    func oldKeysOpenNothingAfterwards(_ change: String) throws {
        let backend: EncryptedFileBackend
        let code = RecoveryCode()
        if change == "set" {
            backend = store.backend()
            try backend.lockbox().archiveObject("old", forKey: "ak")
        } else {
            backend = try store.backend().setUp(items: .everyClass)
        }
        if change == "remove slot" { try backend.addRecoveryCode(code, confirmation: .value(code.text)) }
        let old = try TestStore(copying: store)
        let method: (any UnlockMethod)? =
            change == "set"
            ? nil : change == "remove slot" ? .recoveryCode(.value(code.text)) : .passcode(.value("1234"))
        #expect(try openable(in: old, method) > 0, "the control")
        let report =
            switch change {
            case "set": try backend.setPasscode(.value("1234"), strength: .interactive)
            case "change": try backend.changePasscode(to: .value("5678"), strength: .interactive)
            case "remove": try backend.removePasscode()
            case "rotate": try backend.rotateKeys()
            case "add": try backend.addRecoveryCode(code, confirmation: .value(code.text))
            default: try backend.removeSlot(#require(try backend.slots.last).id)
            }
        #expect(report.isComplete && report.hasNewDeviceKey)
        try backend.lockbox().archiveObject("new", forKey: "later")
        #expect(try openable(in: old, method) == 0)
        #expect(try openable(in: old) == 0)
    }

    /// Items left for later open with old keys until then, and those written since do not.
    @Test func itemsThatAreLeftForLater() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let old = try TestStore(copying: store)
        let report = try backend.changePasscode(to: .value("5678"), strength: .interactive, resealing: false)
        #expect(report.isPostponed && report.resealedCount == 0)
        try backend.lockbox().archiveObject("new", forKey: "later")
        #expect(try openable(in: old, .passcode(.value("1234"))) == Accessibility.allCases.count)
        #expect(try backend.rotateKeys().resealedCount == Accessibility.allCases.count + 1)
        #expect(try openable(in: old, .passcode(.value("1234"))) == 0)
    }

    // MARK: The device key

    @Test func aDeviceKeyThatIsKeptElsewhereIsReplaced() throws {
        let (old, new) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))
        func backend(_ source: DeviceKeySource) -> EncryptedFileBackend {
            store.backend(deviceKey: source)
        }
        let own = backend(.bytes(old))
        try own.lockbox().archiveObject("v", forKey: "k")
        let other = backend(.anyOf([.bytes(new), .bytes(old)]))
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "v")
        #expect(try !own.rotateKeys().hasNewDeviceKey, "only its owner can replace it")
        #expect(try own.rotateKeys(newDeviceKey: .bytes(new)).hasNewDeviceKey)
        #expect(!FileManager.default.fileExists(atPath: store.deviceKey))
        #expect(try own.lockbox().unarchiveObject(forKey: "k") == "v")
        try own.lockbox().archiveObject("w", forKey: "k")
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "w", "it has both")
        #expect(try backend(.bytes(new)).lockbox().unarchiveObject(forKey: "k") == "w")
        expectError(.deviceKeyMismatch) {
            try backend(.bytes(old)).lockbox().unarchiveObject(String.self, forKey: "k")
        }
    }

    @Test func noSourceOfADeviceKeyIsAnError() throws {
        let none = store.backend(deviceKey: .anyOf([]))
        expectError(.invalidDeviceKey) { try none.lockbox().archiveObject("v", forKey: "k") }
        try store.lockbox().archiveObject("v", forKey: "k")
        expectError(.invalidDeviceKey) { try none.lockbox().unarchiveObject(String.self, forKey: "k") }
        let before = try store.snapshot()
        expectError(.invalidDeviceKey) { try store.backend().rotateKeys(newDeviceKey: .anyOf([])) }
        #expect(try store.snapshot() == before)
    }

    @Test func aDeviceKeyMovesOutOfTheStoreAndBack() throws {
        let key = [UInt8](repeating: 2, count: 32)
        let own = store.backend()
        try own.lockbox().archiveObject("v", forKey: "k")
        try own.rotateKeys(newDeviceKey: .bytes(key))
        #expect(!FileManager.default.fileExists(atPath: store.deviceKey))
        expectError(.missing) { try store.lockbox().unarchiveObject(String.self, forKey: "k") }
        let outside = store.backend(deviceKey: .bytes(key))
        #expect(try outside.lockbox().unarchiveObject(forKey: "k") == "v")
        try outside.rotateKeys(newDeviceKey: .stored)
        #expect(try store.lockbox().unarchiveObject(forKey: "k") == "v")
        #expect(try store.deviceKeys().count == 1)
    }

    /// Ends after each of its steps: the store opens, and the next change cleans up.
    @Test func anInterruptedChangeOfTheDeviceKey() throws {
        let own = store.backend()
        try own.lockbox().archiveObject("v", forKey: "k")
        var number = 0
        var isOver = false
        while !isOver {
            number += 1
            let cell = RevocationTests(try TestStore(copying: store))
            let (last, calls) = (number, Protected(0))
            let backend = cell.store.backend(
                SystemCalls { $0 == .rename && calls.next() >= last ? .failure(EIO) : nil }
            )
            isOver = lockboxError { try backend.rotateKeys() } == nil
            #expect(try cell.store.lockbox().unarchiveObject(forKey: "k") == "v", "rename \(number)")
            try cell.store.backend().rotateKeys()
            #expect(try cell.store.lockbox().unarchiveObject(forKey: "k") == "v", "rename \(number)")
            #expect(try cell.store.deviceKeys().count == 1)
        }
        #expect(number > 4)
    }

    private init(_ store: TestStore) { self.store = store }

    // MARK: Backups

    @Test func aBackupMayNotCostWhatItsReaderDoesNotAllow() throws {
        let backend = store.backend()
        try backend.lockbox().archiveObject("v", forKey: "k")
        let path = Path.parent(of: store.directory) + "/backup"
        try backend.exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
        let other = try TestStore().backend()
        expectError(.invalidPasscode) {
            try other.importBackup(from: path, with: .passphrase(.value("p"), maximumWorkFactor: 9))
        }
        #expect(
            try other.importBackup(from: path, with: .passphrase(.value("p"), maximumWorkFactor: 10))
                .importedCount
                == 1
        )
    }
}
