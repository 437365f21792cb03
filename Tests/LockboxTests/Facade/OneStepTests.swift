@_spi(Extensions) import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Moves and batches are one step on both backends in memory. The Keychain's tests check the same.
@Suite struct OneStepTests {
    private let memory = InMemoryBackend()
    private let sealed = SealedBackend(
        storage: InMemoryStorage(),
        deviceKey: .bytes([UInt8](repeating: 7, count: 32))
    )

    @Test func aMovedItemIsAlwaysUnderOneKey() throws {
        try OneStep.aMovedItemIsAlwaysUnderOneKey(on: memory) {
            memory.attributes(prefix: $0[0].prefix, now: nil).count
        }
    }

    @Test func aMovedItemIsAlwaysInOneRecord() throws {
        try OneStep.aMovedItemIsAlwaysUnderOneKey(on: sealed) { _ in
            var count = 0
            for namespace in try sealed.storage.namespaces() {
                try sealed.storage.forEachName(in: namespace, waitingForCommits: false) { _ in count += 1 }
            }
            return count
        }
    }

    @Test func ofManyWhoMoveAnItemOneDoes() throws {
        try OneStep.ofManyWhoMoveAnItemOneDoes(on: memory)
        try OneStep.ofManyWhoMoveAnItemOneDoes(on: sealed)
    }

    @Test func aRefusedBatchChangesNothing() throws {
        try OneStep.aRefusedBatchChangesNothing(on: memory)
        try OneStep.aRefusedBatchChangesNothing(on: sealed)
    }
}
