import Foundation
import Testing

import Lockbox
@testable import LockboxCore

/// Checks of backends that do in one step what the contract allows in several. Their tests run it.
enum OneStep {
    /// - Parameter look: How many of the keys have an item, as of one moment.
    static func aMovedItemIsAlwaysUnderOneKey(
        on backend: some LockboxBackend,
        look: ([ItemKey]) throws -> Int
    ) throws {
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
            #expect(try look(keys) == 1)
        } while !isDone.withLock({ $0 })
        #expect(try lockbox.unarchiveObject(forKey: "a") == "value")
    }

    /// Each wants the item under another key.
    static func ofManyWhoMoveAnItemOneDoes(on backend: some LockboxBackend) throws {
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

    static func aRefusedBatchChangesNothing(on backend: some LockboxBackend) throws {
        let lockbox = try backend.lockbox("com.example")
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
