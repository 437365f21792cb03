import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// A record that is longer than any of ours is damaged, and refused unread: of what it is nothing is known, not even its
/// revision.
@Suite(.tags(.waits), .timeLimit(.minutes(10))) struct LongRecordTests {
    private let store: TestStore
    private let path: String

    init() throws {
        store = try TestStore()
        try store.lockbox().archiveObject("old", forKey: "k")
        path = try store.path("k")
        try #require(truncate(path, off_t(ItemEnvelope.maximumLength + 1)) == 0)
    }

    /// Nothing works any more after that many calls.
    private var limited: SystemCalls { .failing(from: 5000) }

    @Test func itCanBeReplaced() throws {
        let lockbox = try store.backend(limited).lockbox()
        expectError(.corrupt) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        expectError(.duplicateItem) {
            try lockbox.archiveObject("new", forKey: "k", options: WriteOptions(policy: .addOnly))
        }
        try lockbox.archiveObject("new", forKey: "k")
        #expect(try store.lockbox().unarchiveObject(forKey: "k") == "new")
    }

    @Test func aBackupReplacesIt() throws {
        let source = try TestStore()
        let backup = Path.parent(of: source.directory) + "/backup"
        try source.lockbox().archiveObject("backup", forKey: "k")
        try source.backend().exportBackup(to: backup, for: .passphrase(.value("p"), workFactor: 10))
        let report = try store.backend(limited)
            .importBackup(from: backup, with: .passphrase(.value("p")), existing: .replace)
        #expect(report.importedCount == 1)
        #expect(try store.lockbox().unarchiveObject(forKey: "k") == "backup")
    }

    @Test func itCanBeRemoved() throws {
        let lockbox = try store.backend(limited).lockbox()
        #expect(try lockbox.removeExpired() == 0)
        try lockbox.removeObject(forKey: "k")
        #expect(try store.lockbox().allKeys() == [])
    }

    /// Another process replaces it first, before whichever system call: what it has written is not taken for damaged.
    @Test func whoReplacesItFirstIsReplacedAsAnyOther() throws {
        let key = try ItemKey(prefix: TestStore.prefix, key: "k")
        func item(_ text: String, _ date: Date) throws -> StoredItem {
            try StoredItem(
                key: key,
                value: ArchivedValue(data: Data(text.utf8), format: .data),
                modified: date
            )
        }
        let (theirs, ours) = (try item("theirs", Date() - 1000), try item("ours", Date()))
        var number = 0
        while true {
            number += 1
            let store = try TestStore(copying: store)
            let isWritten = Protected(false)
            let other = store.backend(lockTimeout: .milliseconds(20))
            let interruption = Interruption(at: number) {
                let error = lockboxError { try other.write(theirs, policy: .replace) }
                isWritten.withLock { $0 = error == nil }
            }
            let backend = store.backend(interruption.calls)
            interruption.raise()
            try backend.write(ours, policy: .replace)
            let found = try store.backend().item(for: key, now: nil)
            if found?.value == ours.value {
                let created = isWritten.withLock { $0 } ? theirs : ours
                #expect(found?.attributes.created == created.attributes.created, "call \(number)")
            } else {
                #expect(found?.value == theirs.value, "call \(number)")
            }
            if !interruption.hasHappened { break }
        }
        #expect(number > 10)
    }
}
