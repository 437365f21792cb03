import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// An item named as unreadable may have been written anew before it is removed or set aside.
@Suite(.timeLimit(.minutes(10))) struct RepairRaceTests {
    enum Damage: CaseIterable {
        case flipped, value, mode

        func make(at path: String) throws {
            if self == .mode {
                #expect(chmod(path, 0o640) == 0)
                return
            }
            var bytes = try readBytes(path)
            bytes[self == .value ? bytes.count - 1 : 100] ^= 1
            try overwrite(path, bytes)
        }
    }

    /// Like another process. An item that others could write to is not even replaced.
    @Sendable private static func heal(_ damage: Damage, _ path: String, _ lockbox: Lockbox) throws {
        if damage == .mode { chmod(path, 0o600) }
        try lockbox.archiveObject("new", forKey: "k")
    }

    private let store: TestStore

    init() throws { store = try TestStore() }

    /// The name of an item's record that cannot be read.
    private static func damaged(_ damage: Damage, _ store: TestStore) throws -> String {
        try store.lockbox().archiveObject("old", forKey: "k", accessibility: .always)
        let path = try store.path("k")
        try damage.make(at: path)
        return path.split(separator: "/").suffix(2).joined(separator: "/")
    }

    @Test(arguments: Damage.allCases) func whatWasHealedStays(_ damage: Damage) throws {
        let record = try Self.damaged(damage, store)
        try Self.heal(damage, store.path("k"), store.lockbox())
        let backend = store.backend()
        try backend.remove(record: record)
        expectError(.conflict) { try backend.quarantine(record: record) }
        #expect(try store.lockbox().unarchiveObject(forKey: "k") == "new")
        #expect(try backend.verify().findings.isEmpty)
    }

    /// Nothing is lost of what was set aside before.
    @Test func anItemIsSetAsideMoreThanOnce() throws {
        var aside: [String: [UInt8]] = [:]
        for _ in 0..<3 {
            let record = try Self.damaged(.flipped, store)
            let bytes = try readBytes(store.path("k"))
            aside[try store.backend().quarantine(record: record)] = bytes
        }
        #expect(aside.count == 3)
        for (path, bytes) in aside { #expect(try readBytes(path) == bytes) }
    }

    /// A locked value may be intact.
    @Test func whatIsLockedStays() throws {
        let backend = try store.backend().setUp(items: ["k": .whenUnlocked])
        let record = try store.path("k").split(separator: "/").suffix(2).joined(separator: "/")
        let locked = store.backend()
        expectError(.interactionNotAllowed) { try locked.remove(record: record) }
        expectError(.interactionNotAllowed) { try locked.quarantine(record: record) }
        #expect(try backend.verify().intactCount == 1)
    }

    /// Another process heals it before whichever system call of the repair.
    @Test(arguments: Damage.allCases, [true, false]) func whoHealsItMeanwhileLosesNothing(
        _ damage: Damage,
        _ isRemoved: Bool
    ) throws {
        var number = 0
        while true {
            number += 1
            let store = try TestStore()
            let record = try Self.damaged(damage, store)
            let (isHealed, path) = (Protected(false), try store.path("k"))
            let others = try store.backend(lockTimeout: .milliseconds(10)).lockbox()
            let interruption = Interruption(at: number) {
                let error = lockboxError { try Self.heal(damage, path, others) }
                isHealed.withLock { $0 = error == nil }
            }
            let backend = store.backend(interruption.calls)
            _ = try backend.prefixes { _ in }
            interruption.raise()
            if isRemoved {
                try backend.remove(record: record)
            } else {
                _ = lockboxError { try backend.quarantine(record: record) }
            }
            if isHealed.withLock({ $0 }) {
                #expect(try store.lockbox().unarchiveObject(forKey: "k") == "new", "before call \(number)")
            }
            if !interruption.hasHappened { break }
        }
        #expect(number > 5)
    }

    /// The same on a storage whose commits wait for nobody.
    @Test func alsoInMemory() throws {
        var number = 0
        while true {
            number += 1
            let memory = InMemoryStorage()
            let key: DeviceKeySource = .bytes([UInt8](repeating: 7, count: 32))
            let others = try SealedBackend(storage: memory, deviceKey: key).lockbox()
            try others.archiveObject("old", forKey: "k")
            let backend = SealedBackend(storage: memory, deviceKey: key)
            let name = try backend.recordName(of: ItemKey(prefix: TestStore.prefix, key: "k"))
            var bytes = try #require(try memory.read([name], maximum: .max)[name]).bytes
            bytes[100] ^= 1
            _ = memory.commit([.put(name, bytes)], expecting: [:])
            let isHealed = Protected(false)
            let interruption = Interruption(at: number) {
                let error = lockboxError { try others.archiveObject("new", forKey: "k") }
                isHealed.withLock { $0 = error == nil }
            }
            let interrupted = SealedBackend(
                storage: InterruptedStorage(target: memory, interruption: interruption),
                deviceKey: key
            )
            _ = try interrupted.prefixes { _ in }
            interruption.raise()
            try interrupted.remove(record: "\(name.namespace!)/\(name.name)")
            if isHealed.withLock({ $0 }) {
                #expect(try others.unarchiveObject(forKey: "k") == "new", "before call \(number)")
            } else {
                #expect(try others.list().unreadable.isEmpty)
            }
            if !interruption.hasHappened { break }
        }
        #expect(number > 2)
    }
}
