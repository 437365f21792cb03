import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Another process acts before whichever system call of an operation.
@Suite(.timeLimit(.minutes(10))) struct EveryCallTests {
    /// Runs `body` on a fresh store again and again, with `other` before the first system call of its backend, then before
    /// the second, up to the last. A lock that the backend holds at that moment keeps `other` out.
    private func atEveryCall(
        _ other: @escaping @Sendable (EncryptedFileBackend) -> Void,
        _ body: (EncryptedFileBackend, Interruption) throws -> Void
    ) throws {
        var number = Interruption.start
        while true {
            number += Interruption.stride
            let store = try TestStore()
            let others = backend(store)
            let interruption = Interruption(at: number) { other(others) }
            try body(store.backend(interruption.calls), interruption)
            if !interruption.hasHappened { break }
        }
        #expect(number > 10)
    }

    private func backend(_ store: TestStore, _ calls: SystemCalls = SystemCalls()) -> EncryptedFileBackend {
        store.backend(calls, lockTimeout: .milliseconds(20))
    }

    /// Reads like a process that has just started.
    private func read(_ key: String, _ backend: EncryptedFileBackend) throws -> String? {
        try EncryptedFileBackend(directory: backend.directory).lockbox().unarchiveObject(forKey: key)
    }

    // MARK: Items

    @Test func anUpdateLosesNoOther() throws {
        let key = try ItemKey(prefix: TestStore.prefix, key: "k")
        let count = Protected(0)
        @Sendable func increment(_ backend: EncryptedFileBackend) throws {
            try backend.update(key, now: Date()) { old in
                let value = try ArchivedValue(
                    data: Data(count: 1 + (old?.value.data.count ?? 0)),
                    format: .data
                )
                return try StoredItem(key: key, value: value, modified: Date())
            }
            count.withLock { $0 += 1 }
        }
        try atEveryCall({ try? increment($0) }) { backend, interruption in
            count.withLock { $0 = 0 }
            try increment(backend)
            interruption.raise()
            try increment(backend)
            let reopened = EncryptedFileBackend(directory: backend.directory)
            #expect(try reopened.value(for: key, now: Date())?.data.count == count.withLock { $0 })
        }
    }

    /// It was removed before the update read it, or after the update has stored it.
    @Test func aRemovedItemDoesNotComeBack() throws {
        let key = try ItemKey(prefix: TestStore.prefix, key: "k")
        let isRemoved = Protected(false)
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in
            let error = lockboxError { try other.remove(key) }
            isRemoved.withLock { $0 = error == nil }
        }
        try atEveryCall(others) { backend, interruption in
            isRemoved.withLock { $0 = false }
            try backend.lockbox().archiveObject("old", forKey: "k")
            interruption.raise()
            try backend.update(key, now: Date()) { old in
                try StoredItem(
                    key: key,
                    value: #require(try backend.lockbox().archive(old == nil ? "made" : "changed", "k")),
                    modified: Date()
                )
            }
            let left = try read("k", backend)
            #expect(isRemoved.withLock { $0 } ? left != "changed" : left == "changed")
        }
    }

    /// The item was expired when the removal found it.
    @Test func whatIsWrittenMeanwhileIsNotRemovedAsExpired() throws {
        let isWritten = Protected(false)
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in
            let error = lockboxError { try other.lockbox().archiveObject("new", forKey: "k") }
            isWritten.withLock { $0 = error == nil }
        }
        try atEveryCall(others) { backend, interruption in
            isWritten.withLock { $0 = false }
            try backend.lockbox().archiveObject(
                "old",
                forKey: "k",
                options: WriteOptions(expires: .at(Date() + 1000))
            )
            interruption.raise()
            try backend.removeExpired(prefix: TestStore.prefix, now: Date() + 2000)
            #expect(try read("k", backend) == (isWritten.withLock { $0 } ? "new" : nil))
        }
    }

    /// Somebody restores a store, item by item, the keybag last.
    @Test func aStoreWithItemsGetsNoNewKeys() throws {
        let isWritten = Protected(false)
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in
            let error = lockboxError { try other.lockbox().archiveObject("v", forKey: "other") }
            if error == nil { try? removeBoth("\(other.directory)/keybag") }
            isWritten.withLock { $0 = error == nil }
        }
        try atEveryCall(others) { backend, interruption in
            isWritten.withLock { $0 = false }
            interruption.raise()
            try? backend.lockbox().archiveObject("v", forKey: "own")
            let isThere = FileManager.default.fileExists(atPath: "\(backend.directory)/keybag")
            #expect(isThere != isWritten.withLock { $0 })
        }
    }

    // MARK: Rotations

    /// Another process begins the next rotation, or carries the first one on to its end before: the keys that the slow one would
    /// drop are those of every item. Also between its last look and the lock.
    @Test(arguments: [true, false]) func aRotationDropsNoKeysOfTheNext(_ isCarriedOn: Bool) throws {
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in
            if isCarriedOn, (try? other.rotateKeys()) == nil { return }
            _ = try? other.keyChanges.rotateKeys(.renew)
        }
        try atEveryCall(others) { backend, interruption in
            for key in ["1", "2"] { try backend.lockbox().archiveObject("v", forKey: key) }
            _ = try? backend.rotateKeys { if $0.completed == $0.total { interruption.raise() } }
            for key in ["1", "2"] { #expect(try read(key, backend) == "v") }
        }
    }

    @Test func aRotationOverwritesNoNewerValue() throws {
        let isWritten = Protected(false)
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in
            let error = lockboxError { try other.lockbox().archiveObject("newer", forKey: "k") }
            isWritten.withLock { $0 = error == nil }
        }
        try atEveryCall(others) { backend, interruption in
            isWritten.withLock { $0 = false }
            try backend.lockbox().archiveObject("v", forKey: "k")
            interruption.raise()
            try backend.rotateKeys()
            #expect(try read("k", backend) == (isWritten.withLock { $0 } ? "newer" : "v"))
        }
    }

    /// An item that is being written under the old keys has no name yet.
    @Test func aRotationWaitsForWritersWithTheOldKeys() throws {
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in _ = try? other.rotateKeys() }
        try atEveryCall(others) { backend, interruption in
            try backend.lockbox().archiveObject("v", forKey: "first")
            try backend.lockbox().removeObject(forKey: "first")
            interruption.raise()
            try backend.lockbox().archiveObject("v", forKey: "k")
            #expect(try read("k", backend) == "v")
        }
    }

    /// A keybag that changes while it is read.
    @Test func aWriterThatOpensTheStoreBesideARotation() throws {
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in _ = try? other.rotateKeys() }
        try atEveryCall(others) { backend, interruption in
            try EncryptedFileBackend(directory: backend.directory).lockbox().archiveObject(
                "v",
                forKey: "first"
            )
            interruption.raise()
            try backend.lockbox().archiveObject("v", forKey: "k")
            for key in ["first", "k"] { #expect(try read(key, backend) == "v") }
        }
    }

    // MARK: Backups

    @Test(arguments: [ExistingItemPolicy.keep, .fail])
    func anImportThatMayNotReplaceOverwritesNothing(_ policy: ExistingItemPolicy) throws {
        let source = try TestStore()
        let path = Path.parent(of: source.directory) + "/backup"
        try source.lockbox().archiveObject("backup", forKey: "k")
        try source.backend().exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
        let isWritten = Protected(false)
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in
            let error = lockboxError { try other.lockbox().archiveObject("mine", forKey: "k") }
            isWritten.withLock { $0 = error == nil }
        }
        try atEveryCall(others) { backend, interruption in
            isWritten.withLock { $0 = false }
            try backend.lockbox().archiveObject("v", forKey: "another")
            interruption.raise()
            let error = lockboxError {
                try backend.importBackup(from: path, with: .passphrase(.value("p")), existing: policy)
            }
            #expect(error == nil || policy == .fail && error?.code == .duplicateItem)
            #expect(try read("k", backend) == (isWritten.withLock { $0 } ? "mine" : "backup"))
        }
    }

    /// Another writes or removes the item after the import's first look at it: only the item that is replaced counts.
    @Test(arguments: [true, false]) func anImportKeepsTheClassOfWhatIsThere(isRemoved: Bool) throws {
        let source = try TestStore()
        let path = Path.parent(of: source.directory) + "/backup"
        try source.lockbox().archiveObject("backup", forKey: "k", accessibility: .afterFirstUnlock)
        try source.backend().exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
        let isChanged = Protected(false)
        let others: @Sendable (EncryptedFileBackend) -> Void = { other in
            let error = lockboxError {
                let lockbox = try other.lockbox()
                if isRemoved { return try lockbox.removeObject(forKey: "k") }
                try lockbox.archiveObject("mine", forKey: "k", accessibility: .whenUnlockedThisDeviceOnly)
            }
            isChanged.withLock { $0 = error == nil }
        }
        let before: Accessibility = isRemoved ? .afterFirstUnlockThisDeviceOnly : .afterFirstUnlock
        try atEveryCall(others) { backend, interruption in
            isChanged.withLock { $0 = false }
            try backend.lockbox().archiveObject("old", forKey: "k", accessibility: before)
            interruption.raise()
            try backend.importBackup(from: path, with: .passphrase(.value("p")), existing: .replace)
            let fresh = EncryptedFileBackend(directory: backend.directory)
            let found = try fresh.lockbox().attributes(forKey: "k")?.accessibility
            switch (isChanged.withLock { $0 }, isRemoved) {
            case (false, _): #expect(found == before)
            case (true, false): #expect(found == .whenUnlockedThisDeviceOnly)
            case (true, true): #expect(found == nil || found == .afterFirstUnlock)
            }
        }
    }
}
