import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// An item that is there all the time is in every list, and every look finds it, whatever others do meanwhile.
@Suite(.tags(.waits), .timeLimit(.minutes(10))) struct ListTests {
    private static let keys: Set<String> = ["a", "b", "c"]

    private func fill(_ store: TestStore) throws {
        for key in Self.keys { try store.lockbox().archiveObject("v", forKey: key) }
    }

    /// On btrfs a file that is replaced after the folder was opened is not found in it.
    @Test(
        .enabled(if: TestFileSystem.Kind.btrfs.isPresent, TestFileSystem.Kind.btrfs.absence),
        arguments: [1, 2, 5]
    )
    func replacedWhileTheFolderIsRead(times: Int) throws {
        let btrfs = try TestFileSystem(.btrfs)
        try replaceWhileTheFolderIsRead(TestStore(on: btrfs), times: times)
    }

    @Test func replacedWhileTheFolderIsReadElsewhere() throws {
        try replaceWhileTheFolderIsRead(TestStore(), times: 3)
    }

    private func replaceWhileTheFolderIsRead(_ store: TestStore, times: Int) throws {
        try fill(store)
        let other = try store.lockbox()
        let lists: [(Lockbox) throws -> Set<String>] = [
            { try $0.allKeys() },
            { lockbox in
                var keys: Set<String> = []
                try lockbox.forEachItem { key, _ in keys.insert(key) }
                return keys
            },
            { lockbox in
                let path = Path.parent(of: store.directory) + "/backup"
                let backend = try #require(lockbox.backend as? EncryptedFileBackend)
                let report = try backend.exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
                #expect(report.exportedCount == Self.keys.count)
                return Self.keys
            },
        ]
        for list in lists {
            let count = Protected(0)
            // The folder has been opened, and is about to be read.
            let lockbox = try store.backend(
                .before(.readdir) {
                    for key in Self.keys { try? other.archiveObject("v", forKey: key) }
                    return count.withLock {
                        $0 += 1
                        return $0 == times + 1  // the first time it is the folder of the scopes
                    }
                }
            ).lockbox()
            #expect(try list(lockbox) == Self.keys)
        }
    }

    @Test(.enabled(if: TestFileSystem.Kind.btrfs.isPresent, TestFileSystem.Kind.btrfs.absence))
    func whatIsReplacedIsRemovedToo() throws {
        let btrfs = try TestFileSystem(.btrfs)
        let store = try TestStore(on: btrfs)
        try fill(store)
        let other = try store.lockbox()
        let lockbox = try store.backend(
            .before(.readdir) {
                for key in Self.keys {
                    try? other.setAttributes(WriteOptions(accessibility: .always), forKey: key)
                }
                return false
            }
        ).lockbox()
        try lockbox.removeAllObjects()
        #expect(try store.lockbox().allKeys() == [])
        for key in Self.keys { #expect(try !store.lockbox().containsObject(forKey: key)) }
    }

    // MARK: Stopped processes

    /// Also with as many items as make up several pieces of the folder.
    @Test(arguments: [1, 10, 300, 1000]) func aListWaitsForNobodyWhoWasStopped(items: Int) throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("v", forKey: "key")
        for number in 1..<items { try lockbox.archiveObject("v", forKey: "key\(number)") }
        let holder = try TestProcess("hold", store.directory, "key")
        holder.waitForOutput()
        holder.stop()
        let backend = store.backend(lockTimeout: .seconds(30))
        let fresh = try backend.lockbox()
        let start = ContinuousClock.now
        #expect(try fresh.allKeys().count == items)
        #expect(try fresh.unarchiveObject(String.self, forKey: "absent") == nil)
        #expect(try fresh.unarchiveObject(forKey: "key") == "v")
        #expect(ContinuousClock.now - start < .seconds(10))
        holder.kill()
        _ = holder.wait()
    }

    /// A writer was killed between the two marks of its rename, before or after the rename itself.
    @Test(arguments: [false, true]) func aListAfterAWriterThatWasKilled(hasRenamed: Bool) throws {
        let store = try TestStore()
        try fill(store)
        let isRenaming = Protected(false)
        let writer = try store.backend(
            SystemCalls { call in
                isRenaming.withLock { isRenaming in
                    if call == .rename { isRenaming = true }
                    let isDead = isRenaming && (hasRenamed ? call != .rename : true)
                    return isDead ? .failure(EIO) : nil
                }
            }
        ).lockbox()
        let scope = Path.parent(of: try store.path("a"))
        _ = lockboxError { try writer.archiveObject("new", forKey: "a") }
        let count = try readBytes("\(scope)/lock")
        try #require(count.count == 8)
        #expect(!count[0].isMultiple(of: 2), "it was killed in between")
        #expect(try store.lockbox().allKeys() == Self.keys)
        #expect(try store.lockbox().unarchiveObject(String.self, forKey: "absent") == nil)
        #expect(try store.lockbox().unarchiveObject(forKey: "a") == (hasRenamed ? "new" : "v"))
        try store.lockbox().archiveObject("newer", forKey: "a")
        #expect(try readBytes("\(scope)/lock")[0].isMultiple(of: 2))
    }

    // MARK: One look

    /// FUSE moves the file that is replaced out of the way first.
    @Test func aLookWhileTheNameIsHidden() throws {
        let store = try TestStore()
        try fill(store)
        let path = try store.path("a")
        let (isHidden, looks) = (Protected(false), Protected(0))
        let reader = try store.backend(
            SystemCalls { _ in
                if isHidden.withLock({ $0 }) { _ = looks.next() }
                return nil
            }
        ).lockbox()
        #expect(try reader.unarchiveObject(forKey: "a") == "v")
        let found = Protected<[String?]>([])
        let group = DispatchGroup()
        let writer = try store.backend(
            .before(.rename) {
                guard Foundation.rename(path, path + "-hidden") == 0 else { return true }
                _ = isHidden.raise()
                DispatchQueue.global().async(group: group) {
                    let value = try? reader.unarchiveObject(String.self, forKey: "a")
                    found.withLock { $0.append(value) }
                }
                // It has looked for the file, and looks at what the writer does.
                while looks.withLock({ $0 }) < 8, found.withLock({ $0.isEmpty }) { usleep(100) }
                return Foundation.rename(path + "-hidden", path) == 0
            }
        ).lockbox()
        try writer.archiveObject("v", forKey: "a")
        group.wait()
        #expect(found.withLock { $0 } == ["v"])
    }

    @Test(.enabled(if: TestFileSystem.Kind.bindfs.isPresent, TestFileSystem.Kind.bindfs.absence))
    func looksOnFUSE() throws {
        let fuse = try TestFileSystem(.bindfs)
        let store = try TestStore(on: fuse)
        expectError(.readOnly, "FUSE is noticed") {
            try EncryptedFileBackend(directory: store.directory).lockbox("p").archiveObject("v", forKey: "a")
        }
        try fill(store)
        let isOver = Protected(false)
        let group = DispatchGroup()
        DispatchQueue.global().async(group: group) {
            let writer = try! store.backend(lockTimeout: .seconds(30)).lockbox()
            while !isOver.withLock({ $0 }) { try? writer.archiveObject("v", forKey: "a") }
        }
        let reader = try store.backend(lockTimeout: .seconds(30)).lockbox()
        for _ in 0..<2000 { #expect(try reader.unarchiveObject(forKey: "a") == "v") }
        for _ in 0..<100 { #expect(try reader.allKeys() == Self.keys) }
        isOver.withLock { $0 = true }
        group.wait()
    }

    // MARK: Removal

    /// Others get the lock in between.
    @Test func noLockIsHeldForAThousandRemovals() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        for number in 0..<1200 { try lockbox.archiveObject(number, forKey: "\(number)") }
        let (current, most) = (Protected(0), Protected(0))
        let removing = try store.backend(
            SystemCalls { call in
                current.withLock { current in
                    if call == .flock { current = 0 }
                    if call == .unlink { current += 1 }
                    most.withLock { $0 = max($0, current) }
                }
                return nil
            }
        ).lockbox()
        try removing.removeAllObjects()
        #expect(try store.lockbox().allKeys() == [])
        #expect((1...1000).contains(most.withLock { $0 }))
    }
}
