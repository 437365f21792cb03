import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// A counter in memory that can fail.
private final class Counter: GenerationCounter {
    struct State {
        var value: UInt64? = 1
        var isReachable = true
        var canIncrement = true
    }

    let state = Protected(State())

    static let unreachable = LockboxError.notReachable(endpoint: "the counter", reason: "it is off")

    func read() throws -> UInt64? {
        try state.withLock { state in
            if !state.isReachable { throw Self.unreachable }
            return state.value
        }
    }

    func increment() throws -> UInt64 {
        try state.withLock { state in
            guard state.isReachable, state.canIncrement, let value = state.value else {
                throw Self.unreachable
            }
            state.value = value + 1
            return value + 1
        }
    }
}

/// A store that uses a counter, and has no other memory.
@Suite struct CounterTests {
    private let store: TestStore
    private let counter = Counter()

    init() throws { store = try TestStore() }

    private func backend(_ counter: Counter?) -> EncryptedFileBackend {
        let kernel = KernelKeyring { EPERM }
        // On a busy machine, whoever holds the lock may stand still for a while.
        return store.backend(
            lockTimeout: .seconds(30),
            kernel: kernel,
            remembers: false,
            counter: counter
        )
    }

    private func forge(_ generation: UInt64, _ own: EncryptedFileBackend) throws {
        var contents = try #require(try KeybagContents(after: own.keyStore.current()))
        contents.generation = generation
        try overwriteBoth(store.keybag, contents.encoded(deviceKey: store.deviceKeys()[0]))
    }

    private func expectCounted(sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(
            try counter.read() == store.openedKeybag().generation,
            "the counter stands where the keybag does",
            sourceLocation: sourceLocation
        )
    }

    /// Whoever has the device key can write any generation into a store without slots. The counter could not follow it, and would
    /// notice nothing any more.
    @Test func aGenerationThatItCannotFollowIsLowered() throws {
        let own = backend(counter)
        try own.lockbox().archiveObject("v", forKey: "k")
        try forge(1 << 40, own)
        expectError(.rolledBack) { try backend(counter).setPasscode(.value("1"), strength: .interactive) }
        let accepting = backend(counter)
        try accepting.acceptRestored()
        try expectCounted()
        try accepting.setPasscode(.value("1"), strength: .interactive)
        try expectCounted()
    }

    @Test func anOldKeybagIsRefused() throws {
        let own = backend(counter)
        try own.lockbox().archiveObject("old", forKey: "k")
        try expectCounted()
        let old = try store.keyFiles()
        try own.rotateKeys()
        try expectCounted()
        try store.putBack(old)
        let before = try store.snapshot()
        expectError(.rolledBack) { try backend(counter).lockbox().archiveObject("new", forKey: "n") }
        expectError(.rolledBack) { try backend(counter).rotateKeys() }
        expectError(.rolledBack) { try backend(counter).setPasscode(.value("1"), strength: .interactive) }
        #expect(try store.snapshot() == before)
        #expect(throws: Never.self) { try backend(nil).lockState }
    }

    /// Nothing is absent, and nothing is made anew, where there was a store before.
    @Test func aStoreThatWasRemovedIsNoNewOne() throws {
        try backend(counter).lockbox().archiveObject("old", forKey: "k")
        try backend(counter).rotateKeys()
        try FileManager.default.removeItem(atPath: store.directory)
        expectError(.rolledBack) { try backend(counter).lockbox().unarchiveObject(String.self, forKey: "k") }
        expectError(.rolledBack) { try backend(counter).lockbox().archiveObject("new", forKey: "k") }
        #expect(!FileManager.default.fileExists(atPath: store.keybag))
    }

    @Test func noCounterIsNotTheFirstUse() throws {
        try backend(counter).lockbox().archiveObject("old", forKey: "k")
        counter.state.withLock { $0.value = nil }
        expectError(.missing) { try backend(counter).lockbox().unarchiveObject(String.self, forKey: "k") }
        counter.state.withLock { $0.isReachable = false }
        #expect(throws: Counter.unreachable) {
            try backend(counter).lockbox().unarchiveObject(String.self, forKey: "k")
        }
    }

    @Test func aCounterThatStandsHigher() throws {
        try backend(nil).lockbox().archiveObject("v", forKey: "k")
        counter.state.withLock { $0.value = 100 }
        expectError(.rolledBack) { try backend(counter).lockState }
        try backend(counter).acceptRestored()
        try expectCounted()
        #expect(try backend(counter).lockbox().unarchiveObject(forKey: "k") == "v")
    }

    /// The change is made, and the next one makes up for the counter.
    @Test func anIncrementThatFails() throws {
        let own = backend(counter)
        try own.lockbox().archiveObject("v", forKey: "k")
        counter.state.withLock { $0.canIncrement = false }
        try own.setPasscode(.value("1234"), strength: .interactive)
        #expect(try counter.read() == 1)
        counter.state.withLock { $0.canIncrement = true }
        let other = backend(counter)
        try other.unlock(.value("1234"))
        #expect(try counter.read() == 1, "only changes count, in their turn")
        try other.rotateKeys()
        try expectCounted()
    }

    /// A forged number does not use up the counter.
    @Test func aForgedGeneration() throws {
        let own = backend(nil)
        try own.lockbox().archiveObject("v", forKey: "k")
        try forge(1000, own)
        try backend(counter).rotateKeys()
        // A rotation changes the keybag three times.
        #expect(try counter.read() == 1 + 3 * 128)
        #expect(try store.openedKeybag().generation > 1000)
    }

    @Test func changesAtOnceDoNotCountTwice() throws {
        try backend(counter).lockbox().archiveObject("v", forKey: "k")
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for _ in 0..<5 { #expect(throws: Never.self) { try backend(counter).rotateKeys() } }
        }
        try expectCounted()
        #expect(try backend(counter).lockbox().unarchiveObject(forKey: "k") == "v")
    }
}
