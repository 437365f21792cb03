import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// The storage fails in the middle of a call, as one on a network can.
@Suite struct OutageTests {
    /// Records in memory, which some calls do not reach.
    private struct Storage: WrappingStorage {
        enum Call { case reading, listing }

        let target = InMemoryStorage()
        private let failure = Protected<(call: Call, error: LockboxError)?>(nil)
        /// How many calls have failed.
        let failures = Protected(0)

        func fail(_ call: Call, _ error: LockboxError) { failure.withLock { $0 = (call, error) } }
        func recover() { failure.withLock { $0 = nil } }

        /// Of items: the keybag can be read all the time.
        func begin(_ call: StorageCall) throws {
            switch call {
            case .read(let records) where records.contains { $0.namespace != nil }: try check(.reading)
            case .list: try check(.listing)
            case .read, .namespaces, .commit: break
            }
        }

        private func check(_ call: Call) throws {
            guard let failure = failure.withLock({ $0 }), failure.call == call else { return }
            failures.withLock { $0 += 1 }
            throw failure.error
        }
    }

    private let storage = Storage()
    private let backend: SealedBackend
    private let lockbox: Lockbox

    init() throws {
        backend = SealedBackend(storage: storage, deviceKey: .bytes([UInt8](repeating: 7, count: 32)))
        lockbox = try backend.lockbox("p")
        for number in 0..<3 { try lockbox.archiveObject(number, forKey: "\(number)") }
    }

    static let errors: [LockboxError] = [
        .notReachable(endpoint: "e", reason: "r"), .accessDenied(endpoint: "e", reason: "r"),
        .rolledBack(record: "e", reason: "r"), .storeReplaced(location: "e"),
    ]

    @Test(arguments: errors)
    func anOutageIsNoDamage(_ error: LockboxError) throws {
        var calls = 0
        #expect(throws: error) {
            try backend.verify { _ in
                calls += 1
                storage.fail(.reading, error)
            }
        }
        #expect(calls == 1, "the others would wait for as long")
        storage.fail(.listing, error)
        #expect(throws: error) { try backend.verify() }
        storage.recover()
        #expect(try backend.verify().findings == [])
    }

    /// Each call would wait for its whole time limit.
    @Test(arguments: [
        LockboxError.notReachable(endpoint: "e", reason: "r"), .outcomeUnknown(record: "e", reason: "r"),
    ])
    func aRotationEndsWithTheOutage(_ error: LockboxError) throws {
        for number in 3..<50 { try lockbox.archiveObject(number, forKey: "\(number)") }
        storage.fail(.reading, error)
        let report = try backend.rotateKeys()
        #expect(report.postponement == .failed && report.unreadableItems.map(\.error) == [error])
        #expect(report.findings.allSatisfy { !$0.reason.contains("Nothing was changed") })
        #expect(storage.failures.withLock { $0 } <= 3)
        storage.recover()
        #expect(try backend.rotateKeys().resealedCount == 50)
    }

    @Test(arguments: [true, false]) func aCopyEndsWithTheOutage(isSource: Bool) throws {
        let other = InMemoryBackend()
        let others = try other.lockbox("p")
        for number in 0..<300 { try (isSource ? lockbox : others).archiveObject(number, forKey: "\(number)") }
        let error = LockboxError.notReachable(endpoint: "e", reason: "r")
        storage.fail(.reading, error)
        let report = try isSource ? try? backend.copyItems(to: other) : other.copyItems(to: backend)
        #expect(storage.failures.withLock { $0 } <= 4)
        guard let report else { return }
        #expect(report.failures.count == 300 && report.transferredKeys.isEmpty)
        #expect(report.findings.allSatisfy { $0.kind == .notReachable })
    }

    @Test func whatConcernsOneRecordIsAFinding() throws {
        let record = try backend.recordName(of: ItemKey(prefix: "p", key: "0"))
        let location = storage.location(of: record)
        storage.fail(.reading, .unreadable(record: .record(location), reason: "r"))
        // The others have other locations.
        try lockbox.removeObject(forKey: "1")
        try lockbox.removeObject(forKey: "2")
        #expect(try backend.verify().findings.map(\.location) == [location])
    }

    /// Whoever has put back an older state wants nothing of a newer one to be done to it.
    @Test(arguments: errors)
    func nothingIsRemovedFromAnotherStateOfTheStore(_ error: LockboxError) throws {
        storage.fail(.reading, error)
        #expect(throws: error) { try lockbox.removeObject(forKey: "0") }
        storage.recover()
        #expect(try lockbox.unarchiveObject(forKey: "0") == 0)
    }

    @Test func aDamagedItemCanBeRemoved() throws {
        let location = storage.location(of: try backend.recordName(of: ItemKey(prefix: "p", key: "0")))
        storage.fail(.reading, .corrupt(record: .record(location), reason: "r"))
        try lockbox.removeObject(forKey: "0")
        storage.recover()
        #expect(try lockbox.unarchiveObject(Int.self, forKey: "0") == nil)
    }
}
