import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Promise 12, for the folder of a prefix: it makes no other prefix unreachable.
@Suite struct DamagedFolderTests {
    private let store: TestStore
    private static let good = ["com.example.a", "com.example.b"]
    private static let bad = "com.example.bad"

    init() throws { store = try TestStore() }

    enum Damage: CaseIterable { case mode, link, file, lock }

    /// Three prefixes with an item each; the folder of one of them cannot be used. Returns what is named for it.
    private func prepare(_ damage: Damage) throws -> (folder: String, named: String) {
        for prefix in Self.good + [Self.bad] {
            try store.lockbox(prefix).archiveObject(prefix, forKey: "k")
        }
        let folder = Path.parent(of: try store.path("k", prefix: Self.bad))
        switch damage {
        case .mode: #expect(chmod(folder, 0o770) == 0)
        case .link:
            #expect(rename(folder, store.directory + "/../aside") == 0)
            #expect(symlink("../../aside", folder) == 0)
        case .file:
            #expect(rename(folder, store.directory + "/../aside") == 0)
            try overwrite(folder, [1, 2, 3])
        case .lock:
            #expect(unlink(folder + "/lock") == 0)
            #expect(symlink("k", folder + "/lock") == 0)
            return (folder, folder + "/lock")
        }
        return (folder, folder)
    }

    private func mend(_ damage: Damage, _ folder: String) {
        switch damage {
        case .mode: #expect(chmod(folder, 0o700) == 0)
        case .link, .file:
            #expect(unlink(folder) == 0)
            #expect(rename(store.directory + "/../aside", folder) == 0)
        case .lock: #expect(unlink(folder + "/lock") == 0)
        }
    }

    @Test(arguments: Damage.allCases) func prefixesNameIt(_ damage: Damage) throws {
        let (_, named) = try prepare(damage)
        let backend = store.backend()
        var unreadable: [UnreadableItem] = []
        #expect(try backend.prefixes { unreadable.append($0) } == Set(Self.good))
        #expect(unreadable.map(\.location) == [named])
        #expect(unreadable.map(\.error.code) == [.unsafePermissions])
        #expect(unreadable.allSatisfy { $0.key == nil && !$0.isDamaged })
        expectError(.unsafePermissions) { try backend.prefixes() }
        let before = try store.snapshot()
        let record = try #require(unreadable.first).record
        expectError(.invalidKey) { try backend.remove(record: record) }
        #expect(try store.snapshot() == before)
    }

    @Test(arguments: Damage.allCases) func exportsAndCopiesNameIt(_ damage: Damage) throws {
        let (_, named) = try prepare(damage)
        let backend = store.backend()
        let file = Path.parent(of: store.directory) + "/backup"
        let report = try backend.exportBackup(to: file, for: .passphrase(.value("p"), workFactor: 10))
        #expect(report.exportedCount == 2 && report.findings.map(\.location) == [named])
        #expect(report.findings.map(\.kind) == [.unsafePermissions])
        let copy = try backend.copyItems(to: InMemoryBackend())
        #expect(copy.transferredKeys.count == 2 && copy.unreadableItems.map(\.location) == [named])
        // Of this prefix alone there is nothing to export.
        expectError(.unsafePermissions) {
            try backend.exportBackup(
                to: file,
                for: .passphrase(.value("p"), workFactor: 10),
                prefix: Self.bad
            )
        }
    }

    @Test(arguments: Damage.allCases) func aRotationGoesPastIt(_ damage: Damage) throws {
        let (folder, named) = try prepare(damage)
        let backend = store.backend()
        let report = try backend.rotateKeys()
        #expect(report.resealedCount == 2 && report.unrevokedCount == 1 && !report.isComplete)
        #expect(report.unreadableItems.map(\.location) == [named])
        #expect(report.unreadableItems.first?.error.code == .unsafePermissions)
        #expect(try store.openedKeybag().isRotating, "the old keys are kept")
        for prefix in Self.good {
            #expect(try store.lockbox(prefix).unarchiveObject(forKey: "k") == prefix)
        }
        mend(damage, folder)
        expectError(.corrupt) { try store.lockbox(Self.bad).unarchiveObject(String.self, forKey: "k") }
        try backend.acceptItem(record: backend.record(of: "k", prefix: Self.bad))
        #expect(try store.backend().rotateKeys().isComplete)
        #expect(try !store.openedKeybag().isRotating)
        #expect(try store.lockbox(Self.bad).unarchiveObject(forKey: "k") == Self.bad)
    }

    /// Its items without a key any more are left where nobody can get at them.
    @Test func aPasscodeIsRemovedAllTheSame() throws {
        let (_, named) = try prepare(.mode)
        let backend = store.backend()
        #expect(try backend.setPasscode(.value("1"), strength: .interactive).unrevokedCount == 1)
        let report = try backend.removePasscode()
        #expect(report.unrevokedCount == 1 && !report.isPostponed)
        #expect(report.unreadableItems.map(\.location) == [named])
    }

    /// An error of all folders is one of the store.
    @Test func theFolderOfAllItems() throws {
        _ = try prepare(.lock)
        #expect(chmod(store.directory + "/items", 0o770) == 0)
        let backend = store.backend()
        expectError(.unsafePermissions) { try backend.prefixes { _ in } }
        expectError(.unsafePermissions) { try backend.copyItems(to: InMemoryBackend()) }
    }
}
