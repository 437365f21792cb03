import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The promises that span more than one part of Lockbox. Each of the ten has its tests here or with the part that
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
            try overwrite(store.keybag, keybag)
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
                prepared { try FileManager.default.removeItem(atPath: store.keybag) }
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

    @Test("Promise 2: readers see the old value or the new one, whole") func replaceIsAtomicToReaders() throws
    {
        let lockbox = try store.backend(lockTimeout: .seconds(30)).lockbox()
        let values = ["old", "new"].map { String(repeating: $0, count: 2000) }
        try lockbox.archiveObject(values[0], forKey: "key")
        let reads = Protected(0)
        let seen = Protected<Set<String?>>([])
        let group = DispatchGroup()
        for _ in 0..<2 {
            group.enter()
            Thread.detachNewThread {
                while reads.withLock({ $0 }) < 1000 {
                    let value = try? lockbox.unarchiveObject(String.self, forKey: "key")
                    seen.withLock { _ = $0.insert(value) }
                    reads.withLock { $0 += 1 }
                }
                group.leave()
            }
        }
        var round = 0
        while round < 200 || reads.withLock({ $0 }) < 1000 {
            round += 1
            try lockbox.archiveObject(values[round % 2], forKey: "key")
        }
        group.wait()
        #expect(seen.withLock { $0 } == Set(values))
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

    @Test("Promise 6: an accessibility class decides when its key exists") func classesAreMoreThanLabels()
        throws
    {
        let error = lockboxError {
            try lockbox.archiveObject(
                "secret",
                forKey: "other",
                accessibility: .whenPasscodeSetThisDeviceOnly
            )
        }
        #expect(error?.code == .passcodeNotSet)
        #expect(throws: LockboxError.passcodeNotSet) {
            try lockbox.setAttributes(
                WriteOptions(accessibility: .whenPasscodeSetThisDeviceOnly),
                forKey: "key"
            )
        }
        #expect(try lockbox.unarchiveObject(forKey: "key") == "secret")
        #expect(try lockbox.allKeys() == ["key"])

        // Not refused by name: there is no such key.
        let keyring = try store.openedKeybag().keyring()
        for accessibility in Accessibility.allCases {
            let exists = (try? keyring.key(.classKey(accessibility), epoch: 1)) != nil
            #expect(exists == (accessibility != .whenPasscodeSetThisDeviceOnly), "\(accessibility)")
        }
        let keys = try Accessibility.allCases.dropLast().map {
            try keyring.key(.classKey($0), epoch: 1).withBytes { Array($0) }
        }
        #expect(Set(keys).count == 6, "each class has a key of its own")
    }

    @Test("Promise 8: many threads use one store at once") func manyThreads() throws {
        let failures = Protected<[String]>([])
        // On a busy machine, whoever holds the lock may stand still for a while.
        let stores = try [0, 1].map { _ in try store.backend(lockTimeout: .seconds(30)).lockbox() }
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            let lockbox = stores[thread % 2]
            for round in 0..<20 {
                do {
                    try lockbox.archiveObject(round, forKey: "thread \(thread)")
                    guard try lockbox.unarchiveObject(forKey: "thread \(thread)") == round else {
                        failures.withLock { $0.append("thread \(thread) read another value") }
                        return
                    }
                    if round % 5 == 0 { _ = try lockbox.allKeys() }
                } catch {
                    failures.withLock { $0.append("\(error)") }
                }
            }
        }
        #expect(failures.withLock { $0 } == [])
        #expect(try lockbox.allKeys().count == 9)
    }

    /// What is not defended against is so in fact, and is written down.
    @Test("Promise 10: what cannot be defended against is written down") func limits() throws {
        let path = try store.path("key")
        let old = try readBytes(path)
        try lockbox.archiveObject("new", forKey: "key")
        try overwrite(path, old)
        #expect(
            try lockbox.unarchiveObject(forKey: "key") == "secret",
            "an older version of an item, put back, opens"
        )

        let security = try SourceText.file("SECURITY.md").lowercased()
        for limit in [
            "same user", "device key beside", "older version", "whole store", "memory", "weak passcode",
            "old copies",
        ] {
            #expect(security.contains(limit), "SECURITY.md says nothing of: \(limit)")
        }
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

    /// As by a restore from a backup under a running program.
    @Test func itemsThatAreReplacedWhileOpenAreSeen() throws {
        let items = "\(store.directory)/items"
        try FileManager.default.copyItem(atPath: items, toPath: items + "-backup")
        try lockbox.archiveObject("later", forKey: "later")
        try FileManager.default.removeItem(atPath: items)
        try FileManager.default.moveItem(atPath: items + "-backup", toPath: items)
        #expect(try lockbox.allKeys() == ["key"])
        try lockbox.removeObject(forKey: "key")
        #expect(try store.lockbox().allKeys().isEmpty)

        try lockbox.archiveObject("again", forKey: "key")
        try FileManager.default.moveItem(atPath: items, toPath: items + "-moved")
        try FileManager.default.copyItem(atPath: items + "-moved", toPath: items)
        try lockbox.archiveObject("into the copy", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "into the copy")
    }

    /// The store is made between this process's two looks at it.
    @Test func aStoreThatIsMadeMeanwhileIsNotDamaged() throws {
        let store = try TestStore()
        let made = Protected(false)
        let calls = SystemCalls(fault: { call in
            guard call == .stat, !made.withLock({ $0 }) else { return nil }
            made.withLock { $0 = true }
            try? store.lockbox().archiveObject("by another", forKey: "key")
            return .failure(ENOENT)  // what the look at the keybag had found a moment before
        })
        mkdir(store.directory, 0o700)
        let value: String? = try store.backend(calls).lockbox().unarchiveObject(forKey: "key")
        #expect(value == "by another")
        #expect(made.withLock { $0 })
    }

    @Test func strayFilesDoNotStopAStore() throws {
        let store = try TestStore()
        mkdir(store.directory, 0o700)
        mkdir("\(store.directory)/items", 0o700)
        try overwrite("\(store.directory)/items/.DS_Store", [1])
        let lockbox = try store.lockbox()
        #expect(try lockbox.allKeys().isEmpty)
        try lockbox.archiveObject("secret", forKey: "key")
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

    /// What Lockbox will keep for itself neither shows nor disturbs.
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
