@testable import LockboxKeychainTesting
import Foundation
import LockboxKeychain
@_spi(Extensions) import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Backends do in one step what the contract allows in several.
@Suite struct OneStepTests {
    enum Engine: String, CaseIterable {
        case memory, sealedMemory, keychain

        func backend() -> any LockboxBackend {
            switch self {
            case .memory: InMemoryBackend()
            case .sealedMemory:
                SealedBackend(storage: InMemoryStorage(), deviceKey: .bytes([UInt8](repeating: 7, count: 32)))
            case .keychain: KeychainBackend(KeychainSimulator())
            }
        }

        /// How many of the keys have an item, as of one moment.
        func look(_ backend: any LockboxBackend, _ keys: [ItemKey]) throws -> Int {
            switch self {
            case .memory, .keychain: try backend.attributes(prefix: keys[0].prefix, now: nil).count
            case .sealedMemory:
                try (backend as? SealedBackend).map { backend in
                    var count = 0
                    for namespace in try backend.storage.namespaces() {
                        try backend.storage.forEachName(in: namespace, waitingForCommits: false) { _ in
                            count += 1
                        }
                    }
                    return count
                } ?? 0
            }
        }
    }

    @Test(arguments: Engine.allCases) func aMovedItemIsAlwaysUnderOneKey(_ engine: Engine) throws {
        let backend = engine.backend()
        let keys = try ["a", "b"].map { try ItemKey(prefix: "com.example", key: $0) }
        let lockbox = try backend.lockbox("com.example")
        try lockbox.archiveObject("value", forKey: "a", options: WriteOptions(label: "label"))
        let isDone = Protected(false)
        let mover = Thread {
            for number in 0..<400 {
                try? backend.move(keys[number % 2], to: keys[(number + 1) % 2], policy: .addOnly, now: Date())
            }
            isDone.withLock { $0 = true }
        }
        mover.start()
        repeat {
            #expect(try engine.look(backend, keys) == 1)
        } while !isDone.withLock({ $0 })
        #expect(try lockbox.unarchiveObject(forKey: "a") == "value")
    }

    /// Each wants the item under another key.
    @Test(arguments: Engine.allCases) func ofManyWhoMoveAnItemOneDoes(_ engine: Engine) throws {
        let backend = engine.backend()
        let lockbox = try backend.lockbox("com.example")
        for round in 0..<20 {
            try lockbox.archiveObject(round, forKey: "source")
            let count = Protected(0)
            DispatchQueue.concurrentPerform(iterations: 8) { number in
                do {
                    try lockbox.moveObject(forKey: "source", toKey: "target \(round) \(number)")
                    count.withLock { $0 += 1 }
                } catch { #expect((error as? LockboxError)?.code == .itemNotFound) }
            }
            #expect(count.withLock { $0 } == 1)
            #expect(try lockbox.allKeys().count == round + 1)
        }
    }

    @Test(arguments: [Engine.memory, .keychain, .sealedMemory]) func aRefusedBatchChangesNothing(
        _ engine: Engine
    ) throws {
        let lockbox = try engine.backend().lockbox("com.example")
        try lockbox.archiveObject("old", forKey: "first")
        try lockbox.archiveObject("old", forKey: "second")
        expectError(.duplicateItem) {
            try lockbox.batch { batch in
                try batch.archiveObject("new", forKey: "first")
                try batch.archiveObject("new", forKey: "third")
                try batch.archiveObject("new", forKey: "second", options: WriteOptions(policy: .addOnly))
            }
        }
        #expect(try lockbox.unarchiveObject(forKey: "first") == "old")
        #expect(try Set(lockbox.allKeys()) == ["first", "second"])
    }
}
