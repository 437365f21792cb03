import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting
@testable import LockboxTestProcess

/// Another process acts before whichever call of a storage that has no locks: only what a commit expects keeps the two
/// apart.
@Suite(.timeLimit(.minutes(10))) struct EveryStorageCallTests {
    private func atEveryCall(
        _ other: @escaping @Sendable (SealedBackend) -> Void,
        _ body: (SealedBackend, InMemoryStorage, Interruption) throws -> Void
    ) throws {
        var number = 0
        while true {
            number += 1
            let memory = InMemoryStorage()
            let others = open(memory)
            let interruption = Interruption(at: number) { other(others) }
            let storage = InterruptedStorage(target: memory, interruption: interruption)
            try body(open(storage), memory, interruption)
            if !interruption.hasHappened { break }
        }
        #expect(number > 2)
    }

    /// Opens it like a process that has just started.
    private func open(_ storage: any RecordStorage) -> SealedBackend {
        SealedBackend(KeyStore(storage: storage, deviceKey: .stored, kernel: KernelKeyring { ENOSYS }))
    }

    private func archive(
        _ text: String,
        _ key: String,
        expires: Expiry = .never,
        in backend: any LockboxBackend
    )
        throws
    {
        try backend.lockbox().archiveObject(text, forKey: key, options: WriteOptions(expires: expires))
    }

    private func read(_ key: String, _ backend: any LockboxBackend) throws -> String? {
        try backend.lockbox().unarchiveObject(forKey: key)
    }

    /// By both of them: one keybag counts, and one device key.
    @Test func aStoreIsMadeOnce() throws {
        let others: @Sendable (SealedBackend) -> Void = { other in
            #expect(throws: Never.self) { try archive("v", "other", in: other) }
        }
        try atEveryCall(others) { backend, memory, interruption in
            interruption.raise()
            try archive("v", "own", in: backend)
            #expect(try read("own", open(memory)) == "v")
            #expect(try read("other", open(memory)) == (interruption.hasHappened ? "v" : nil))
        }
    }

    /// Both rewrite the keybag.
    @Test func aPasscodeThatIsSetBesideARotation() throws {
        let others: @Sendable (SealedBackend) -> Void = { other in
            // Refused when the passcode has been set by then.
            let error = lockboxError { try other.rotateKeys() }
            #expect(error == nil || error?.code == .interactionNotAllowed)
        }
        try atEveryCall(others) { backend, memory, interruption in
            try archive("v", "k", in: backend)
            interruption.raise()
            try backend.setPasscode(.value(quick + "1"), strength: .interactive)
            let reopened = open(memory)
            #expect(try reopened.lockState == .beforeFirstUnlock)
            try reopened.unlock(.value(quick + "1"))
            #expect(try read("k", reopened) == "v")
        }
    }

    @Test func aRotationBesideAPasscodeThatIsSet() throws {
        let others: @Sendable (SealedBackend) -> Void = { other in
            #expect(throws: Never.self) { try other.setPasscode(.value(quick + "1"), strength: .interactive) }
        }
        try atEveryCall(others) { backend, memory, interruption in
            try archive("v", "k", in: backend)
            interruption.raise()
            // It is not told the passcode.
            let error = lockboxError { try backend.rotateKeys() }
            #expect(error == nil || error?.code == .interactionNotAllowed, "\(String(describing: error))")
            let reopened = open(memory)
            #expect(try reopened.lockState == (interruption.hasHappened ? .beforeFirstUnlock : .unprotected))
            if interruption.hasHappened { try reopened.unlock(.value(quick + "1")) }
            #expect(try read("k", reopened) == "v")
        }
    }

    /// The item to be replaced is another one by then, which this process cannot read.
    @Test func anImportOverwritesNoLockedItem() throws {
        let source = try TestStore()
        let path = Path.parent(of: source.directory) + "/backup"
        try source.lockbox().archiveObject("backup", forKey: "k", accessibility: .always)
        try source.backend().exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
        let others: @Sendable (SealedBackend) -> Void = { other in
            #expect(throws: Never.self) {
                try other.unlock(.value("1"))
                try other.lockbox().archiveObject("locked", forKey: "k", accessibility: .whenUnlocked)
            }
        }
        try atEveryCall(others) { backend, memory, interruption in
            let owner = try open(memory).setUp(passcode: "1", items: ["k": .always])
            interruption.raise()
            let error = lockboxError {
                try backend.importBackup(from: path, with: .passphrase(.value("p")), existing: .replace)
            }
            #expect(error == nil || error?.code == .interactionNotAllowed)
            #expect(try read("k", owner) == (interruption.hasHappened ? "locked" : "backup"))
        }
    }

    /// The storage's limit holds, however many items there are.
    @Test func noCommitHasMoreChangesThanTheStorageAllows() throws {
        let storage = NarrowStorage()
        let backend = open(storage)
        for number in 0..<5 {
            try archive("v", "\(number)", expires: number < 3 ? .at(.distantPast) : .never, in: backend)
        }
        #expect(try backend.removeExpired(prefix: TestStore.prefix, now: Date()) == 3)
        for number in 0..<3 { try archive("v", "\(number)", in: backend) }
        try backend.removeAll(prefix: TestStore.prefix)
        #expect(try backend.attributes(prefix: TestStore.prefix, now: nil).isEmpty)
    }
}

/// Takes no more than two changes at once.
private struct NarrowStorage: WrappingStorage {
    let target = InMemoryStorage()

    var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: .max,
            maximumChanges: 2,
            isTransactional: true,
            isOnThisDevice: true
        )
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) throws -> CommitOutcome {
        try #require(changes.count <= limits.maximumChanges)
        return target.commit(changes, expecting: expecting)
    }
}
