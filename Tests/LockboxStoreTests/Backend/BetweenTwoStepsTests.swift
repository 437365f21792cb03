import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Another process does something whole between any two steps of a call.
@Suite struct BetweenTwoStepsTests {
    private let memory = InMemoryStorage()
    private let deviceKey = DeviceKeySource.bytes([UInt8](repeating: 7, count: 32))
    private let others: SealedBackend

    init() { others = SealedBackend(storage: memory, deviceKey: deviceKey) }

    private func key(_ name: String) throws -> ItemKey { try ItemKey(prefix: TestStore.prefix, key: name) }

    private func item(_ name: String, _ value: String = "v") throws -> StoredItem {
        let value = try ArchivedValue(data: Data(value.utf8), format: .json)
        return try StoredItem(key: key(name), value: value, modified: Date(timeIntervalSince1970: 1))
    }

    /// Interrupts the call before whichever call of its storage.
    ///
    /// - Parameter check: Called after each call that was interrupted.
    private func atEveryStep(
        _ set: () throws -> Void,
        of call: (SealedBackend) throws -> Void,
        _ other: @escaping @Sendable () throws -> Void,
        check: () throws -> Void
    ) throws {
        var number = 0
        while true {
            number += 1
            try set()
            let interruption = Interruption(at: number) { #expect(throws: Never.self) { try other() } }
            let own = SealedBackend(
                storage: InterruptedStorage(target: memory, interruption: interruption),
                deviceKey: deviceKey
            )
            _ = try own.prefixes { _ in }
            interruption.raise()
            try call(own)
            if !interruption.hasHappened { break }
            try check()
        }
        #expect(number > 2)
    }

    /// A record that was named as unreadable, and is gone.
    @Test func aRepairOfWhatIsGoneRemovesNoNewItem() throws {
        let (key, item) = (try key("k"), try item("k"))
        try others.write(item, policy: .replace)
        let record = try #require(try others.location(of: key)).split(separator: "/").suffix(2)
        try atEveryStep(
            { try others.remove(key) },
            of: { _ = try $0.remove(record: record.joined(separator: "/")) },
            { [others] in try others.write(item, policy: .addOnly) },
            check: {
                let found = try others.item(for: key, now: nil)
                #expect(found == item)
            }
        )
    }

    @Test func oppositeMovesOfTwoStoresLoseNoItem() throws {
        let (key, item) = (try key("k"), try item("k"))
        let destination = SealedBackend.inMemory()
        try atEveryStep(
            {
                try destination.removeAll(prefix: key.prefix)
                try others.write(item, policy: .replace)
            },
            of: { _ = try $0.moveItems(to: destination) },
            { [others] in _ = try destination.moveItems(to: others) },
            check: {
                let found = try [others, destination].map { try $0.item(for: key, now: nil) }
                #expect(found.contains(item), "\(found)")
            }
        )
    }

    /// Another process takes the migration over, and the user moves the item back.
    @Test func aMigrationRemovesNothingThatWasMovedBack() throws {
        let (key, item) = (try key("k"), try item("k"))
        let destination = SealedBackend.inMemory()
        let lockbox = try destination.lockbox()
        @Sendable func migrate(_ source: SealedBackend) throws {
            let from = MigrationSource.backend(source, keyPrefix: TestStore.prefix)
            _ = try lockbox.migrate(Migration(nil, from: from, .string("k")))
        }
        try atEveryStep(
            {
                try destination.removeAll(prefix: key.prefix)
                try others.write(item, policy: .replace)
            },
            of: { try migrate($0) },
            { [others] in
                try migrate(others)
                _ = try destination.moveItems(to: others)
            },
            check: {
                let found = try [others, destination].map { try $0.item(for: key, now: nil) }
                #expect(found.contains(item), "\(found)")
            }
        )
    }

    // MARK: The claim of a lease

    /// Only another value ends it.
    @Test func whatBringsAnEqualItemKeepsItsClaim() throws {
        let (key, item) = (try key("k"), try item("k"))
        let claimed = try item.claimed("1 0 1000")
        try others.write(item, policy: .addOnly)
        try others.update(key, now: nil) { _ in claimed }
        let place = try ItemReceiver(for: others).place(of: item)
        #expect(place.occupant.isSame, "an import")

        let source = SealedBackend.inMemory()
        try source.write(item, policy: .addOnly)
        for policy in ExistingItemPolicy.allCases {
            #expect(try source.copyItems(to: others, existing: policy).failures.isEmpty)
            #expect(try others.item(for: key, now: nil) == claimed, "a copy, \(policy)")
        }
        let labeled = ItemChanges(options: WriteOptions(label: "another"), modified: item.attributes.modified)
        try source.write(labeled, to: key)
        #expect(try source.moveItems(to: others, existing: .replace).failures.isEmpty)
        let found = try #require(try others.item(for: key, now: nil))
        #expect(found.attributes.claim == claimed.attributes.claim && found.attributes.label == "another")
    }
}
