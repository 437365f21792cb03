import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Lists and looks while a name is hidden, as btrfs and FUSE hide it while its file is replaced. Here the test hides it, so
/// that it happens at the moment that counts, and everywhere.
@Suite(.timeLimit(.minutes(10))) struct HiddenNameTests {
    private let store: TestStore
    private let name: HiddenName

    init() throws {
        store = try TestStore()
        for key in ["a", "b"] { try store.lockbox().archiveObject("v", forKey: key) }
        name = try HiddenName(store.path("a"), LockFile(store.folder(of: "a")))
    }

    /// Runs `body` before each reading of a folder by a process that lists; gives it the reading's number.
    private func list(lockTimeout: Duration = .seconds(5), _ body: @escaping @Sendable (Int) -> Void) throws
        -> Set<String>
    {
        let isUp = Protected(false)
        let count = Protected(0)
        let calls = SystemCalls { call in
            guard call == .readdir, isUp.withLock({ $0 }) else { return nil }
            body(count.next())
            return nil
        }
        let backend = store.backend(calls, lockTimeout: lockTimeout)
        let lockbox = try backend.lockbox()
        _ = try lockbox.allKeys()
        isUp.withLock { $0 = true }
        return try lockbox.allKeys()
    }

    // MARK: Lists

    /// Every reading misses a name, unless it is made under the lock.
    @Test func aReadingThatWasDisturbedIsNotBelieved() throws {
        let other = try store.lockbox()
        let keys = try list { [name] _ in
            let error = lockboxError { try other.archiveObject("v", forKey: "b") }
            if error == nil { name.hide() } else { name.show() }
        }
        #expect(keys == ["a", "b"])
    }

    /// A writer was stopped between the marks of its rename, which it makes during the first of two readings.
    @Test func aReadingDuringARenameIsNotBelievedAlone() throws {
        try #require(try name.lock.lock())
        try name.lock.setCount(name.lock.count() | 1)
        name.hide()
        let keys = try list { [name] number in if number == 2 { name.show() } }
        #expect(keys == ["a", "b"])
    }

    @Test func ofTwoReadingsEachItemIsListedOnce() throws {
        try #require(try name.lock.lock())
        try name.lock.setCount(name.lock.count() | 1)
        var keys: [String] = []
        try store.lockbox().forEachItem { key, _ in keys.append(key) }
        #expect(keys.sorted() == ["a", "b"])
    }

    /// It held up the first reading, and has the lock.
    @Test func aWriterThatWasStoppedIsNotWaitedFor() throws {
        let other = try store.lockbox()
        let start = ContinuousClock.now
        let keys = try list(lockTimeout: .seconds(20)) { [name] number in
            guard number == 1 else { return }
            #expect(throws: Never.self) { try other.archiveObject("v", forKey: "b") }
            #expect((try? name.lock.lock()) == true)
        }
        #expect(keys == ["a", "b"])
        #expect(ContinuousClock.now - start < .seconds(10))
    }

    // MARK: Looks

    /// Runs `body` on a backend beside a writer that hides the name from one of the backend's system calls on, whichever that
    /// is, for so many calls.
    private func hideAtEveryCall(_ length: Int, _ body: (Lockbox) throws -> Void) throws {
        var number = 0
        var hasHappened = true
        while hasHappened {
            number += 1
            try store.lockbox().archiveObject("v", forKey: "a")
            let (count, isUp) = (Protected(0), Protected(false))
            let calls = SystemCalls { [name, number] _ in
                guard isUp.withLock({ $0 }) else { return nil }
                let current = count.next()
                if current == number { name.beginRename() }
                if current == number + length { name.endRename() }
                return nil
            }
            let lockbox = try store.backend(calls).lockbox()
            _ = try lockbox.unarchiveObject(String.self, forKey: "b")
            isUp.withLock { $0 = true }
            try body(lockbox)
            isUp.withLock { $0 = false }
            name.endRename()
            hasHappened = count.withLock { $0 } >= number
        }
        #expect(number > 4)
    }

    @Test(arguments: [1, 2, 5, 12]) func whatIsHiddenIsNotAbsent(calls: Int) throws {
        try hideAtEveryCall(calls) { lockbox in
            let value: String? = try lockbox.unarchiveObject(forKey: "a")
            #expect(value == "v")
        }
    }

    /// It may be refused while the writer has the lock; but it does not succeed, and leave the secret there.
    @Test(arguments: [1, 12]) func whatIsHiddenIsRemoved(calls: Int) throws {
        try hideAtEveryCall(calls) { lockbox in
            let error = lockboxError { try lockbox.removeObject(forKey: "a") }
            name.endRename()
            #expect(error != nil || !name.isThere)
        }
    }
}

/// A file whose name a writer hides while it replaces the file.
private final class HiddenName: Sendable {
    /// Of its folder.
    let lock: LockFile
    private let path: String
    private var hidden: String { Path.parent(of: Path.parent(of: path)) + "-hidden" }
    private let isRenaming = Protected(false)

    init(_ path: String, _ lock: LockFile) {
        self.path = path
        self.lock = lock
    }

    var isThere: Bool { access(path, F_OK) == 0 }

    func hide() { _ = rename(path, hidden) }

    func show() { _ = rename(hidden, path) }

    /// Not while another has the lock.
    func beginRename() {
        guard (try? lock.lock()) == true else { return }
        isRenaming.withLock { $0 = true }
        #expect(throws: Never.self) { try lock.setCount(lock.count() | 1) }
        hide()
    }

    func endRename() {
        let isRenaming = isRenaming.withLock { isRenaming in
            defer { isRenaming = false }
            return isRenaming
        }
        guard isRenaming else { return }
        show()
        #expect(throws: Never.self) { try lock.setCount(lock.count() + 1) }
        lock.unlock()
    }
}
