import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Stores that are moved, copied, removed or made anew while a process has them open.
@Suite struct MovedStoreTests {
    private let store: TestStore
    private let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
        try lockbox.archiveObject("old", forKey: "key")
    }

    /// The copy is the store now.
    @Test func aCopyInTheStoresPlaceIsUsed() throws {
        try store.copyInPlace()
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
        try store.lockbox().archiveObject("new", forKey: "key")
        try store.lockbox().archiveObject("more", forKey: "another")
        #expect(try lockbox.unarchiveObject(forKey: "key") == "new")
        #expect(try lockbox.allKeys() == ["key", "another"])
        try lockbox.archiveObject("newer", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "newer")
        try lockbox.removeObject(forKey: "another")
        #expect(try store.lockbox().allKeys() == ["key"])
    }

    @Test func theKeysOfACopyMayBeOthersByNow() throws {
        try store.copyInPlace()
        try store.backend().rotateKeys()
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
        try lockbox.archiveObject("new", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
    }

    /// It is neither damaged nor empty.
    @Test func anotherStoreInItsPlaceIsSaidToBeOne() throws {
        try FileManager.default.removeItem(atPath: store.directory)
        try store.lockbox().archiveObject("another store's", forKey: "key")
        let before = try store.snapshot()
        TestStore.waitUntilChangesAreSeen()
        for (number, call) in lockbox.everyCall.enumerated() {
            guard case .storeReplaced = lockboxError(call) else {
                Issue.record("call \(number): \(String(describing: lockboxError(call)))")
                continue
            }
        }
        #expect(
            try store.snapshot().filter { $0.value.bytes?.isEmpty == false }
                == before.filter { $0.value.bytes?.isEmpty == false }
        )
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "another store's")
    }

    /// It waited for the lock meanwhile.
    @Test func nothingIsWrittenToAStoreThatWasMovedWhileItsLockWasWaitedFor() throws {
        let record = try store.backend().recordName(of: ItemKey(prefix: TestStore.prefix, key: "key"))
        let (group, lock) = (DispatchGroup(), try LockFile(store.folder(of: "key")))
        let holder = store.backend()
        let waiting = try store.backend(lockTimeout: .seconds(10)).lockbox()
        _ = try waiting.allKeys()
        try holder.storage.holdingLock(of: record.namespace) {
            Thread.detachNewThread(in: group) {
                #expect(throws: Never.self) { try waiting.archiveObject("new", forKey: "key") }
            }
            lock.waitUntilItIsWaitedFor()
            try store.copyInPlace()
        }
        group.wait()
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
    }

    @Test func aFolderForTemporaryFilesThatWasRemovedIsMadeAnew() throws {
        try FileManager.default.removeItem(atPath: "\(store.directory)/tmp")
        try lockbox.archiveObject("new", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
        try FileManager.default.removeItem(atPath: "\(store.directory)/tmp")
        try lockbox.archiveObject("newer", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "newer")
    }

    /// By a process that has their folder open, but not that of the prefix.
    @Test func aCopyOfTheItemsInTheirPlaceIsUsed() throws {
        let (items, copy) = ("\(store.directory)/items", "\(store.directory)/copy")
        let readers = [store.backend(), store.backend()]
        for reader in readers { #expect(try reader.lockbox("com.example.absent").allKeys().isEmpty) }
        try FileManager.default.copyItem(atPath: items, toPath: copy)
        try FileManager.default.removeItem(atPath: items)
        try FileManager.default.moveItem(atPath: copy, toPath: items)
        TestStore.waitUntilChangesAreSeen()
        #expect(try readers[0].lockbox().unarchiveObject(forKey: "key") == "old")
        try readers[1].lockbox().archiveObject("new", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
    }

    @Test func itemsThatWereRemovedAreAbsentAndCanBeWrittenAgain() throws {
        let writer = store.backend()
        #expect(try writer.lockbox("com.example.absent").allKeys().isEmpty)
        try FileManager.default.removeItem(atPath: "\(store.directory)/items")
        TestStore.waitUntilChangesAreSeen()
        #expect(try writer.lockbox().unarchiveObject(String.self, forKey: "key") == nil)
        try writer.lockbox().archiveObject("new", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
    }

    /// Before whichever call of a write, by a process that has the prefix's folder open or only the one above it. Only what is
    /// removed under the lock makes the write fail.
    @Test(arguments: [TestStore.prefix, "com.example.absent"])
    func itemsRemovedDuringAWriteAreMadeAnew(prefix: String) throws {
        var number = 0
        while true {
            number += 1
            let store = try TestStore()
            try store.lockbox().archiveObject("old", forKey: "key")
            let interruption = Interruption(at: number) {
                try? FileManager.default.removeItem(atPath: "\(store.directory)/items")
            }
            let writer = store.backend(interruption.calls)
            _ = try writer.lockbox(prefix).allKeys()
            interruption.raise()
            let error = lockboxError { try writer.lockbox().archiveObject("new", forKey: "key") }
            if case .storageFailure("rename", _, ENOENT, _) = error {
                try writer.lockbox().archiveObject("new", forKey: "key")
            } else {
                #expect(error == nil, "call \(number)")
            }
            if !interruption.hasHappened { break }
        }
        #expect(number > 10)
    }

    // MARK: The keybag's revision

    /// Times of whole seconds, and an inode that is given out again: the keybag that comes back to the same inode within one
    /// second is another one.
    @Test(
        .enabled(
            if: TestFileSystem.Kind.ext4OfWholeSeconds.isPresent,
            TestFileSystem.Kind.ext4OfWholeSeconds.absence
        ),
        .timeLimit(.minutes(10))
    )
    func aKeybagThatLooksLikeTheOldOneIsReadAnew() throws {
        let ext4 = try TestFileSystem(.ext4OfWholeSeconds)
        for _ in 0..<20 {
            let store = try TestStore(on: ext4)
            let writer = try store.lockbox()
            try writer.archiveObject("v", forKey: "k")
            try writer.removeObject(forKey: "k")
            let rotating = store.backend()
            try rotating.rotateKeys()
            _ = try writer.allKeys()
            try rotating.rotateKeys()
            try rotating.rotateKeys()
            try writer.archiveObject("v", forKey: "k")
            #expect(try store.lockbox().unarchiveObject(forKey: "k") == "v")
        }
    }

    /// The same without such a file system: bytes alone tell.
    @Test func aRevisionIsMadeOfBytes() throws {
        let storage = store.storage()
        func revision() throws -> RecordRevision? {
            try storage.revision(of: RecordName.keybag, maximum: 1 << 20)
        }
        let before = try #require(try revision())
        let bytes = try readBytes(store.keybag)
        try overwriteBoth(store.keybag, bytes)
        #expect(try revision() == before)
        try flipLastBytes(of: store.keybag)
        #expect(try revision() != before)
        try overwriteBoth(store.keybag, bytes)
        #expect(try revision() == before)
    }
}
