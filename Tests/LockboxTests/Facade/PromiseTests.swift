import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The promises that span more than one part of Lockbox. Each has its tests here or with the part that
/// keeps it, under its number.
@Suite struct PromiseTests {
    private let store: TestStore
    private let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
        try lockbox.archiveObject("secret", forKey: "key")
    }

    /// Ways in which an item cannot be read, and the error of each.
    private func failures() throws -> [(
        what: String, code: LockboxError.Code, lockbox: Lockbox, prepare: () throws -> Void
    )] {
        let path = try store.path("key")
        let bytes = try readBytes(path)
        let keybag = try readBytes(store.keybag)
        func restore() throws {
            try? FileManager.default.removeItem(atPath: path)
            try overwrite(path, bytes)
            try overwriteBoth(store.keybag, keybag)
        }
        func prepared(_ work: @escaping () throws -> Void) -> () throws -> Void {
            {
                try restore()
                try work()
            }
        }
        let failing = try store.backend(
            SystemCalls(fault: { $0 == .read ? .failure(EIO) : nil })
        ).lockbox()
        return [
            (
                "cut short", .corrupt, try store.lockbox(),
                prepared { try overwrite(path, Array(bytes.dropLast(500))) }
            ),
            (
                "changed", .authenticationFailed, try store.lockbox(),
                prepared { try store.damage("key") }
            ),
            (
                "newer", .unsupportedVersion, try store.lockbox(),
                prepared { try overwrite(path, bytes[..<4] + [9] + bytes[5...]) }
            ),
            ("open to all", .unsafePermissions, try store.lockbox(), prepared { chmod(path, 0o644) }),
            ("on a broken disk", .unreadable, failing, prepared {}),
            (
                "without its keybag", .missing, try store.lockbox(),
                prepared { try removeBoth(store.keybag) }
            ),
        ]
    }

    @Test("Promise 1: nil means that there is no such item, and nothing else") func nilMeansAbsent() throws {
        #expect(try lockbox.unarchiveObject(String.self, forKey: "missing") == nil)
        for (what, code, lockbox, prepare) in try failures() {
            try prepare()
            let error = lockboxError { try lockbox.unarchiveObject(String.self, forKey: "key") }
            #expect(error?.code == code, "\(what): \(String(describing: error))")
        }
        let intact = try TestStore()
        try intact.lockbox().archiveObject("secret", forKey: "key")
        expectError(.decodingFailed) { try intact.lockbox().unarchiveObject(Int.self, forKey: "key") }
    }

    @Test("Promise 3: a failed read never deletes, resets or overwrites anything")
    func failedReadsWriteNothing() throws {
        for (what, _, lockbox, prepare) in try failures() {
            try prepare()
            let before = try store.snapshot()
            let reads: [() throws -> Void] = [
                { _ = try lockbox.unarchiveObject(String.self, forKey: "key") },
                { _ = try lockbox.containsObject(forKey: "key") },
                { _ = try lockbox.attributes(forKey: "key") },
                { _ = try lockbox.allKeys() },
                { _ = try lockbox.backend.prefixes() },
            ]
            for read in reads { try? read() }
            #expect(try store.snapshot() == before, "\(what)")
        }
    }

    /// The gaps that SECURITY.md names are there in fact.
    @Test("Promise 10: an older version of an item, put back, opens") func limits() throws {
        let path = try store.path("key")
        let old = try readBytes(path)
        try lockbox.archiveObject("new", forKey: "key")
        try overwrite(path, old)
        #expect(
            try lockbox.unarchiveObject(forKey: "key") == "secret",
            "an older version of an item, put back, opens"
        )
    }

    @Test func aStoreThatWasReplacedWhileOpenIsNotWrittenTo() throws {
        try FileManager.default.moveItem(atPath: store.directory, toPath: store.directory + "-moved")
        defer { try? FileManager.default.removeItem(atPath: store.directory + "-moved") }
        mkdir(store.directory, 0o700)
        TestStore.waitUntilChangesAreSeen()
        expectError(.storeReplaced) { try lockbox.archiveObject("new", forKey: "key") }
        expectError(.storeReplaced) { try lockbox.unarchiveObject(String.self, forKey: "key") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: store.directory).isEmpty)
    }

    /// Nothing is empty, or done, only because it has gone.
    @Test func aStoreThatIsRemovedWhileOpenIsNotEmpty() throws {
        try FileManager.default.removeItem(atPath: store.directory)
        for (number, call) in lockbox.everyCall.enumerated() {
            #expect(lockboxError(call) != nil, "call \(number)")
        }
    }

    /// The store is made between this process's two looks at it.
    @Test func aStoreThatIsMadeMeanwhileIsNotDamaged() throws {
        let store = try TestStore()
        let made = Protected(false)
        let calls = SystemCalls(fault: { call in
            guard call == .stat, !made.withLock({ $0 }) else { return nil }
            made.withLock { $0 = true }
            try? store.lockbox().archiveObject("by another", forKey: "key")
            return .failure(ENOENT)  // the look at the keybag had found this a moment before
        })
        mkdir(store.directory, 0o700)
        let value: String? = try store.backend(calls).lockbox().unarchiveObject(forKey: "key")
        #expect(value == "by another")
        #expect(made.withLock { $0 })
    }

    @Test func strayFilesDoNotStopAStore() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("secret", forKey: "key")
        try overwrite("\(store.directory)/items/.DS_Store", [1])
        try overwrite(Path.parent(of: store.path("key")) + "/notes.txt", [1])
        try overwrite("\(store.directory)/tmp/notes.txt", [1])
        #expect(try store.lockbox().allKeys() == ["key"])
        #expect(try store.lockbox().backend.prefixes() == [TestStore.prefix])
    }

    @Test func aWriteThatCannotBeDoneMakesNoStore() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        let update = lockboxError {
            try lockbox.archiveObject(1, forKey: "key", options: WriteOptions(policy: .updateOnly))
        }
        #expect(update == .itemNotFound(key: "key"))
        #expect(throws: LockboxError.itemNotFound(key: "key")) {
            try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "key")
        }
        #expect(!FileManager.default.fileExists(atPath: store.directory))
    }

    /// Lockbox's own items neither show nor disturb.
    @Test func reservedPrefixesAreHidden() throws {
        let own = try ItemKey(storedPrefix: "\0migrations", key: "v2")
        let value = try ArchivedValue(data: Data(), format: .data)
        for backend in [store.backend(), InMemoryBackend()] as [any LockboxBackend] {
            try backend.write(StoredItem(key: own, value: value, modified: Date()), policy: .replace)
            #expect(try !backend.prefixes().contains("\0migrations"))
            #expect(try backend.item(for: own, now: .distantPast)?.key == own)
        }
    }

    @Test func aScopeThatWasMadeAnewWhileOpenIsFound() throws {
        let scope = Path.parent(of: try store.path("key"))
        try FileManager.default.moveItem(atPath: scope, toPath: scope + "-moved")
        TestStore.waitUntilChangesAreSeen()
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == nil)
        try FileManager.default.removeItem(atPath: scope + "-moved")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == nil)
        try store.lockbox().archiveObject("again", forKey: "key")
        #expect(try lockbox.unarchiveObject(forKey: "key") == "again")
        try lockbox.archiveObject("more", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "more")
    }
}
