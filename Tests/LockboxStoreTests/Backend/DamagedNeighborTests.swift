import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Promise 12: one damaged record makes nothing else unreachable.
@Suite struct DamagedNeighborTests {
    private static let damage = ["flipped", "cut", "link", "folder", "mode"]

    private let store: TestStore

    init() throws { store = try TestStore() }

    /// A store with items of which five cannot be read, and the path of a foreign file under an item's name.
    private func prepare(_ count: Int) throws -> [String: String] {
        let lockbox = try store.lockbox()
        for number in 0..<count - Self.damage.count { try lockbox.archiveObject(number, forKey: "\(number)") }
        for key in Self.damage {
            try lockbox.archiveObject("v", forKey: key, options: WriteOptions(expires: .at(.distantFuture)))
        }
        var paths: [String: String] = [:]
        for key in Self.damage { paths[key] = try store.path(key) }
        var bytes = try readBytes(paths["flipped"]!)
        bytes[100] ^= 1
        try overwrite(paths["flipped"]!, bytes)
        try overwrite(paths["cut"]!, Array(readBytes(paths["cut"]!).prefix(20)))
        try replace(paths["link"]!) { #expect(symlink("/etc/passwd", $0) == 0) }
        try replace(paths["folder"]!) {
            #expect(mkdir($0, 0o700) == 0)
            try overwrite($0 + "/inside", [1, 2, 3])
        }
        chmod(paths["mode"]!, 0o640)
        let foreign = Path.parent(of: paths["cut"]!) + "/" + RecordID { Sodium.fillRandom($0) }.name
        try overwrite(foreign, Array("not an item".utf8))
        paths["foreign"] = foreign
        return paths
    }

    private func replace(_ path: String, _ body: (String) throws -> Void) throws {
        #expect(unlink(path) == 0)
        try body(path)
    }

    @Test("Promise 12: lists, exports, transfers and rotations go past damage and name it")
    func everythingElseIsReachable() throws {
        let paths = try prepare(1000)
        let lockbox = try store.lockbox()
        let backend = try #require(lockbox.backend as? EncryptedFileBackend)

        let list = try lockbox.list()
        #expect(list.items.count == 995)
        #expect(Set(list.unreadable.map(\.location)) == Set(paths.values))
        #expect(list.unreadable.allSatisfy { $0.key == nil })
        #expect(
            Set(list.unreadable.filter(\.isDamaged).map(\.location))
                == Set(["flipped", "cut", "foreign"].map { paths[$0]! })
        )
        expectError(.unsafePermissions, "or any of the others") {
            try lockbox.forEachItem(unreadable: { if $0.location == paths["mode"] { throw $0.error } }) {
                _,
                _ in
            }
        }
        expectAnyError { try lockbox.allKeys() }
        #expect(try backend.prefixes(unreadable: { _ in }) == [TestStore.prefix])

        let file = Path.parent(of: store.directory) + "/backup"
        let export = try backend.exportBackup(to: file, for: .passphrase(.value("p"), workFactor: 10))
        #expect(export.exportedCount == 995 && export.findings.count == 6 && !export.isComplete)

        let memory = InMemoryBackend()
        let copy = try backend.copyItems(to: memory)
        #expect(copy.transferredKeys.count == 995 && copy.unreadableItems.count == 6 && !copy.isComplete)

        var passed: [UnreadableItem] = []
        #expect(try lockbox.removeExpired { passed.append($0) } == 0)
        #expect(passed.count == 6)

        let rotation = try backend.rotateKeys()
        // A damaged item needs no keys.
        #expect(rotation.resealedCount == 995 && rotation.unrevokedCount == 3 && !rotation.isComplete)
        #expect(Set(rotation.findings.map(\.location)) == Set(paths.values))

        // Each can be removed by what the list named.
        for item in try lockbox.list().unreadable { try lockbox.remove(item) }
        #expect(try lockbox.list().unreadable.isEmpty)
        #expect(try lockbox.allKeys().count == 995)
        #expect(try backend.rotateKeys().isComplete)
        #expect(try backend.verify().findings.isEmpty)
        #expect(FileManager.default.fileExists(atPath: "/etc/passwd"))
        let aside = try FileManager.default.contentsOfDirectory(atPath: "\(store.directory)/quarantine")
        #expect(aside.count == 1, "a folder that is not empty is set aside, and not deleted")
    }

    /// An app's tests see what its users will.
    @Test func soDoesABackendThatFailsOnDemand() throws {
        _ = try prepare(10)
        let failing = FailingBackend(store.backend())
        let lockbox = try failing.lockbox()
        #expect(try lockbox.list().items.count == 5 && lockbox.list().unreadable.count == 6)
        #expect(try failing.prefixes(unreadable: { _ in }) == [TestStore.prefix])
    }

    @Test func eachCanBeSetAside() throws {
        let paths = try prepare(10)
        let lockbox = try store.lockbox()
        for item in try lockbox.list().unreadable {
            let before = try? readBytes(item.location)
            let path = try lockbox.quarantine(item)
            #expect(path.hasPrefix("\(store.directory)/quarantine/") && (try? readBytes(path)) == before)
            expectError(.missing) { try lockbox.quarantine(item) }
        }
        #expect(try lockbox.list().items.count == 5 && lockbox.list().unreadable.isEmpty)
        #expect(try store.backend().verify().findings.isEmpty)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: "\(store.directory)/quarantine").count
                == paths.count
        )
    }

    /// By their keys, as any item.
    @Test(arguments: [true, false]) func eachCanBeRemovedByItsKey(_ isAlone: Bool) throws {
        _ = try prepare(10)
        let lockbox = try store.lockbox()
        if isAlone {
            for key in Self.damage { try lockbox.removeObject(forKey: key) }
            #expect(try lockbox.list().unreadable.count == 1, "the foreign file has no key")
        } else {
            try lockbox.removeAllObjects()
            #expect(try lockbox.list() == ItemList())
        }
    }

    @Test(arguments: ["keybag", "../keybag", "a/b", "", "/", "items/x", "../../etc/passwd", "lock"])
    func nothingElseIsRemoved(_ record: String) throws {
        _ = try prepare(10)
        let backend = store.backend()
        let before = try store.snapshot()
        let namespace = try backend.recordName(of: ItemKey(prefix: TestStore.prefix, key: "k")).namespace!
        for name in [record, "\(namespace)/\(record)", "\(namespace)/lock", "\(namespace)/.."] {
            expectError(.invalidKey) { try backend.remove(record: name) }
            expectError(.invalidKey) { try backend.quarantine(record: name) }
        }
        #expect(try store.snapshot() == before)
    }

    @Test func verifyNamesTheKeyOfADamagedValue() throws {
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("v", forKey: "token")
        let path = try store.damage("token")
        let finding = try #require(try store.backend().verify().findings.first)
        #expect(finding.location == path && finding.reason.contains(#"key "token""#))
    }

    @Test func memoryHasNoQuarantine() throws {
        let backend = SealedBackend(storage: InMemoryStorage())
        let key = try ItemKey(prefix: "p", key: "k")
        let record = try backend.recordName(of: key)
        expectError(.notSupported) { try backend.quarantine(record: "\(record.namespace!)/\(record.name)") }
        let lockbox = try InMemoryBackend().lockbox("p")
        let item = UnreadableItem(key: nil, record: "r", location: "l", error: .missingKeyPrefix)
        expectError(.notSupported) { try lockbox.remove(item) }
    }

    private func expectAnyError(_ body: () throws -> Set<String>) {
        #expect(lockboxError(body) != nil)
    }
}
