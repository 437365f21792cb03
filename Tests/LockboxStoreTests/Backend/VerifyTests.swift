import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The findings of `verify()`, and that it changes nothing.
@Suite struct VerifyTests {
    private let store: TestStore
    private let scope: String

    init() throws {
        store = try TestStore()
        for index in 0..<3 { try store.lockbox().archiveObject(index, forKey: "\(index)") }
        try store.lockbox("com.example.other").archiveObject("x", forKey: "0")
        scope = Path.parent(of: try store.path("0"))
    }

    private func verify(_ backend: EncryptedFileBackend? = nil) throws -> VerifyReport {
        let before = try store.snapshot()
        let report = try (backend ?? store.backend()).verify()
        #expect(try store.snapshot() == before)
        return report
    }

    private func found(_ report: VerifyReport) -> [String: StoreFinding.Kind] {
        Dictionary(report.findings.map { ($0.location, $0.kind) }) { $1 }
    }

    @Test func aStoreThatIsAsItShouldBe() throws {
        let report = try verify()
        #expect(report.intactCount == 4)
        #expect(report.lockedCount == 0)
        #expect(report.findings.isEmpty, "\(report.findings)")
        expectError(.storeNotFound) { try TestStore().backend().verify() }
    }

    @Test func itTellsHowFarItHasCome() throws {
        var told: [StoreProgress] = []
        _ = try store.backend().verify { told.append($0) }
        #expect(told == (1...4).map { StoreProgress(completed: $0, total: 4) })
    }

    @Test func everyKindOfFinding() throws {
        let (damaged, cut, open, link) = (
            try store.damage("0"), try store.path("1"), try store.path("2"), try store.path("x")
        )
        try overwrite(cut, [])
        chmod(open, 0o644)
        symlink(open, link)
        try overwrite("\(scope)/notes.txt", [1])
        try overwrite("\(store.directory)/notes.txt", [1])
        try overwrite("\(store.directory)/items/notes.txt", [1])
        let (leftover, stray) = (try store.leaveBehind(), try store.leaveBehind("notes.txt"))

        let report = try verify()
        #expect(report.intactCount == 1)
        #expect(
            found(report) == [
                damaged: .damaged, cut: .damaged, open: .unsafePermissions, link: .unsafePermissions,
                "\(scope)/notes.txt": .foreign, "\(store.directory)/notes.txt": .foreign,
                "notes.txt": .foreign, stray: .foreign,
                leftover: .leftover,
            ]
        )
        #expect(report.findings.allSatisfy { !$0.reason.isEmpty && !$0.reason.contains($0.location) })
    }

    @Test func leftoversStayUntilSomethingIsWritten() throws {
        let leftover = try store.leaveBehind()
        let backend = store.backend()
        #expect(found(try verify(backend)) == [leftover: .leftover])
        try backend.lockbox().archiveObject(1, forKey: "0")
        #expect(try store.leftovers() == [])
    }

    /// More folders than are kept open.
    @Test func leftoversOfAStoreWithManyPrefixes() throws {
        let backend = store.backend()
        for number in 0..<300 {
            try backend.lockbox("p\(number)").archiveObject("v", forKey: "k")
        }
        let leftover = try store.leaveBehind()
        #expect(found(try verify()) == [leftover: .leftover])
    }

    /// The kernel holds what goes with another keybag: waiting for its writer is no writing.
    @Test(.needsKernelKeyring)
    func leftoversBesideAStaleUnlock() throws {
        let backend = try store.backend().setUp(scope: .user)
        let old = try store.keyFiles()
        defer { store.lockForEverybody() }
        try backend.changePasscode(to: .value("5678"), strength: .interactive)
        try store.putBack(old)
        let leftover = try store.leaveBehind()
        #expect(found(try verify()) == [leftover: .leftover, store.keybag: .rolledBack])
    }

    @Test func locksThatOthersCanUse() throws {
        for lock in ["\(scope)/lock", "\(store.directory)/lock"] {
            try overwrite(lock, [])
            chmod(lock, 0o666)
            #expect(found(try verify()) == [lock: .unsafePermissions])
            chmod(lock, 0o600)
        }
    }

    /// The keys were damaged after this backend read them.
    @Test func damagedKeysOfAnOpenStore() throws {
        let backend = store.backend()
        _ = try backend.prefixes()
        chmod(store.keybag, 0o644)
        #expect(found(try verify(backend)) == [store.keybag: .unsafePermissions])
        chmod(store.keybag, 0o600)
        let (keybag, deviceKey) = (try readBytes(store.keybag), try readBytes(store.deviceKey))
        try overwriteBoth(store.keybag, [])
        #expect(found(try verify(backend)) == [store.keybag: .damaged])
        try overwriteBoth(store.keybag, keybag)
        try overwriteBoth(store.deviceKey, [])
        #expect(found(try verify(backend)) == [store.deviceKey: .damaged])
        try overwriteBoth(store.deviceKey, deviceKey)
        try removeBoth(store.keybag)
        #expect(found(try verify(backend)) == [store.keybag: .damaged])
    }

    @Test func aNameThatIsNotText() throws {
        let path = Array("\(scope)/a".utf8.map { CChar($0) }) + [CChar(bitPattern: 0xFF), 0]
        let file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        try #require(file >= 0)
        close(file)
        #expect(try store.backend().verify().findings.map(\.kind) == [.foreign])
    }

    @Test func anItemOfAnotherStore() throws {
        let stranger = try TestStore()
        try stranger.lockbox().archiveObject(0, forKey: "0")
        let path = try stranger.path("0")
        let copy = "\(scope)/\(path.split(separator: "/").last!)"
        try overwrite(copy, readBytes(path))
        #expect(found(try verify()) == [copy: .foreign])
    }

    @Test func theDeviceKeyOfAnotherStore() throws {
        let stranger = try TestStore()
        try stranger.lockbox().archiveObject(0, forKey: "0")
        try overwriteBoth(store.deviceKey, readBytes(stranger.deviceKey))
        #expect(found(try verify()) == [store.deviceKey: .foreign])
    }

    @Test func lockedItemsAreCounted() throws {
        let backend = try store.backend().setUp(items: ["always": .always])
        let report = try verify()
        #expect(report.intactCount == 5)
        #expect(report.lockedCount == 4)
        #expect(report.findings.isEmpty)
        #expect(try verify(backend).lockedCount == 0)
    }

    @Test func damagedKeysAreAFinding() throws {
        let keybag = try readBytes(store.keybag)
        try overwriteBoth(store.keybag, Array(keybag.dropLast()))
        #expect(found(try verify()) == [store.keybag: .damaged])
        try overwriteBoth(store.keybag, keybag)
        try removeBoth(store.deviceKey)
        #expect(found(try verify()) == [store.deviceKey: .damaged])
    }

    @Test func foldersThatOthersCanWriteTo() throws {
        chmod(scope, 0o777)
        #expect(found(try verify()) == [scope: .unsafePermissions])
        chmod(scope, 0o700)
        chmod("\(store.directory)/tmp", 0o777)
        #expect(found(try verify()) == ["\(store.directory)/tmp": .unsafePermissions])
    }
}
