import Foundation
import Testing

@testable import Lockbox
@testable import LockboxAge
@testable import LockboxBackup
@_spi(Extensions) @testable import LockboxCore
import LockboxPlatform
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// The moment that a backup is of: items are moved while it is written, and none is lost.
@Suite(.serialized, .timeLimit(.minutes(10))) struct BackupMomentTests: BackupFixture {
    let source: TestStore
    let target: TestStore

    private let keys = (0..<20).map { "k\($0)" }

    init() throws {
        source = try TestStore()
        target = try TestStore()
    }

    private func key(_ name: String, _ prefix: String = "a") throws -> ItemKey {
        try ItemKey(prefix: prefix, key: name)
    }

    private func values() throws -> [String] {
        let passphrase = AgeIdentity.passphrase(WipedBytes("passphrase".utf8))
        var reader = try BackupReader(path, [passphrase], SystemCalls())
        var values: [String] = []
        try reader.read { values.append(String(decoding: $0.value.data, as: UTF8.self)) }
        return values
    }

    /// Each keeps every value, under one name or another.
    enum Change: CaseIterable { case renamed, renamedTwice, toAnotherPrefix, awayAndBack, inACircle }

    private func perform(_ change: Change, _ backend: SealedBackend) throws {
        func move(_ old: ItemKey, _ new: ItemKey) throws {
            try backend.move(old, to: new, policy: .replace, now: now)
        }
        switch change {
        case .renamed: for name in keys { try move(key(name), key("new \(name)")) }
        case .renamedTwice:
            for name in keys {
                try move(key(name), key("other \(name)"))
                try move(key("other \(name)"), key("new \(name)"))
            }
        case .toAnotherPrefix: for name in keys { try move(key(name), key(name, "b")) }
        case .awayAndBack:
            for name in keys { try move(key(name), key("new \(name)")) }
            for name in keys { try move(key("new \(name)"), key(name)) }
        case .inACircle:
            // Each takes the place of the one before, which may have been read already.
            try move(key(keys[0]), key("first"))
            for (name, next) in zip(keys, keys.dropFirst()) { try move(key(next), key(name)) }
            try move(key("first"), key(keys[keys.count - 1]))
        }
    }

    @Test(arguments: Change.allCases, [true, false]) func anItemThatIsMovedMeanwhileIsInTheBackup(
        _ change: Change,
        isInFiles: Bool
    ) throws {
        let backend = isInFiles ? source.backend() : SealedBackend.inMemory()
        for name in keys { try backend.write(item(name), policy: .addOnly) }
        var isMoved = false
        let report = try backend.exportBackup(
            to: path,
            for: .passphrase(.value("passphrase"), workFactor: 1)
        ) { progress in
            if isMoved || progress.completed < keys.count / 2 { return }
            isMoved = true
            #expect(throws: Never.self) { try perform(change, backend) }
        }
        #expect(isMoved && report.isComplete)
        // Each once.
        #expect(try values().sorted() == keys.map { "of \($0)" }.sorted())
    }

    /// A prefix that the item is moved into may be listed first, when it is empty, and cannot be listed again.
    @Test(arguments: ["k0", "k1"]) func aPrefixThatFailsLaterHidesNoMove(_ name: String) throws {
        var call = 1
        while true {
            let lists = Lists()
            let backend = SealedBackend(storage: lists, deviceKey: .bytes(Array(repeating: 1, count: 32)))
            for name in ["k0", "k1"] { try backend.write(item(name), policy: .addOnly) }
            try backend.write(item("k", "b"), policy: .addOnly)
            try backend.remove(key("k", "b"))
            lists.failing.withLock { $0 = call }
            let passphrase = BackupRecipients.passphrase(.value("passphrase"), workFactor: 1)
            var isMoved = false
            let report = try? backend.exportBackup(to: path, for: passphrase) { _ in
                if isMoved { return }
                isMoved = true
                #expect(throws: Never.self) {
                    try backend.move(key(name), to: key(name, "b"), policy: .addOnly, now: now)
                }
            }
            if let report, report.isComplete { #expect(try values().count == 2, "list \(call)") }
            if lists.failing.withLock({ $0 }) > 0 { break }
            call += 1
        }
        #expect(call > 3)
    }

    @Test func anItemThatIsMovedAllTheWhileIsInEachBackup() throws {
        let backend = source.backend(lockTimeout: .seconds(60))
        for name in keys { try backend.write(item(name), policy: .addOnly) }
        let (isOver, failure) = (Protected(false), Protected<(any Error)?>(nil))
        let ended = DispatchSemaphore(value: 0)
        try detachThread {
            defer { ended.signal() }
            let other = source.backend(lockTimeout: .seconds(60))
            while !isOver.withLock({ $0 }) {
                do { try perform(.inACircle, other) } catch { return failure.withLock { $0 = error } }
            }
        }
        for _ in 0..<30 {
            let report = try export(backend)
            #expect(report.isComplete)
            // While an item is moved, it has both names for a moment.
            #expect(try Set(values()) == Set(keys.map { "of \($0)" }))
        }
        isOver.withLock { $0 = true }
        ended.wait()
        #expect(failure.withLock { $0 } == nil)
    }

    @Test func anItemThatAnotherProcessMovesIsInEachBackup() throws {
        let backend = source.backend(lockTimeout: .seconds(60))
        let lockbox = try Lockbox(keyPrefix: "com.example.process", backend: backend)
        for name in keys { try lockbox.archiveObject("of \(name)", forKey: name) }
        let mover = try TestProcess("move", source.directory, "k0", "new")
        mover.waitForOutput()
        for number in 0..<30 {
            #expect(try export(backend).isComplete)
            #expect(
                try Set(values()) == Set(keys.map { "\"of \($0)\"" }),
                "number \(number)"
            )
        }
        #expect(mover.wait() == 0)
    }
    /// Without locks, writers cannot be kept out.
    @Test func aStoreThatNeverRests() throws {
        let backend = SealedBackend.inMemory()
        for name in keys { try backend.write(item(name), policy: .addOnly) }
        try export(backend)
        let before = try readBytes(path)
        var number = 0
        let report = try backend.exportBackup(
            to: path,
            for: .passphrase(.value("passphrase"), workFactor: 1)
        ) { progress in
            guard progress.completed == keys.count else { return }
            number += 1
            #expect(throws: Never.self) {
                try backend.write(item("k0", text: "of k0 \(number)"), policy: .replace)
            }
        }
        #expect(number == 10)
        #expect(report.findings.map(\.kind) == [.changing] && report.exportedCount == keys.count)
        #expect(try report.path == "\(path).incomplete" && readBytes(path) == before)
    }

    /// Another process's writers wait for the fourth attempt.
    @Test func aStoreThatRestsOnlyWhileItIsLocked() throws {
        let backend = source.backend()
        for name in keys { try backend.write(item(name), policy: .addOnly) }
        var attempts = 0
        let report = try backend.exportBackup(
            to: path,
            for: .passphrase(.value("passphrase"), workFactor: 1)
        ) { progress in
            guard progress.completed == keys.count else { return }
            attempts += 1
            #expect(throws: Never.self) {
                try backend.write(item("k0", text: "of k0 \(attempts)"), policy: .replace)
            }
        }
        #expect(attempts == 3 && report.isComplete)
        #expect(try values().contains("of k0 3"))
    }

    /// Its lock does not tell of what it has done.
    @Test func itemsThatAKilledWriterRemoves() throws {
        let backend = source.backend()
        for name in keys { try backend.write(item(name), policy: .addOnly) }
        let killed = source.backend(SystemCalls { $0 == .write ? .failure(EIO) : nil })
        try backend.exportBackup(to: path, for: .passphrase(.value("passphrase"), workFactor: 1)) {
            guard $0.completed == keys.count / 2 else { return }
            #expect(throws: Never.self) { for name in keys.dropLast() { try killed.remove(key(name)) } }
        }
        #expect(try values() == ["of \(keys[keys.count - 1])"])
    }

    @Test func eachItemIsOpenedOnce() throws {
        let opens = Protected(0)
        let backend = source.backend(
            SystemCalls { call in
                if call == .open { opens.withLock { $0 += 1 } }
                return nil
            }
        )
        func opensOfAnExport() throws -> Int {
            opens.withLock { $0 = 0 }
            try export(backend)
            return opens.withLock { $0 }
        }
        for name in keys { try backend.write(item(name), policy: .addOnly) }
        let before = try opensOfAnExport()
        for name in keys { try backend.write(item("other \(name)"), policy: .addOnly) }
        // And the keybag, which may have been replaced.
        #expect(try opensOfAnExport() - before == 2 * keys.count)
    }

    @Test func removedAndAddedItems() throws {
        let backend = source.backend()
        for name in keys { try backend.write(item(name), policy: .addOnly) }
        var isDone = false
        try backend.exportBackup(to: path, for: .passphrase(.value("passphrase"), workFactor: 1)) {
            progress in
            if isDone { return }
            isDone = true
            #expect(throws: Never.self) {
                for name in keys.dropLast() { try backend.remove(key(name)) }
                try backend.write(item("added"), policy: .addOnly)
            }
        }
        #expect(try values().sorted() == ["of added", "of \(keys[keys.count - 1])"])
    }
}

/// Fails in one list, the one whose number is `failing` from now on.
private struct Lists: WrappingStorage {
    let target = InMemoryStorage()
    let failing = Protected(0)

    func begin(_ call: StorageCall) throws {
        guard case .list(let namespace) = call else { return }
        try failing.withLock { failing in
            failing -= 1
            if failing != 0 { return }
            let folder = subject(of: RecordName(namespace: namespace, name: ""))
            throw LockboxError.unreadable(record: folder, reason: "errno 5")
        }
    }
}
