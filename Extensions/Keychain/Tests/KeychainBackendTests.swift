@testable import LockboxKeychainTesting
import Dispatch
import Foundation
import LockboxTesting
import Testing

import Lockbox
@_spi(Extensions) @testable import LockboxCore
@testable import LockboxKeychain

@Suite struct KeychainBackendTests {
    private let keychain = KeychainSimulator(platform: .macOS, accessGroups: ["T.app", "T.shared"])
    private let now = Date(timeIntervalSinceReferenceDate: 8e8)

    private var backend: KeychainBackend { KeychainBackend(keychain) }

    private func key(_ name: String = "k") throws -> ItemKey { try ItemKey(prefix: "p", key: name) }

    private func item(
        _ text: String = "v",
        _ name: String = "k",
        _ accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil,
        label: String? = nil
    ) throws -> StoredItem {
        try StoredItem(
            key: key(name),
            value: ArchivedValue(data: Data(text.utf8), format: .data),
            accessibility: accessibility,
            modified: now,
            expires: expires,
            label: label
        )
    }

    private func text(_ name: String = "k", _ backend: KeychainBackend? = nil) throws -> String? {
        try (backend ?? self.backend).value(for: key(name), now: now).map {
            String(decoding: $0.data, as: UTF8.self)
        }
    }

    private func lockedClass(_ body: () throws -> Void) -> Accessibility? {
        do { try body() } catch LockboxError.interactionNotAllowed(let accessibility) {
            return accessibility
        } catch {}
        return nil
    }

    /// The items in the Keychain, as any program sees them.
    private var stored: [KeychainCalls.Attributes] {
        let query: KeychainCalls.Attributes = [
            "class": .text("genp"), "nleg": .bool(true), "sync": .text("syna"),
            "m_Limit": .text("m_LimitAll"),
            "r_Attributes": .bool(true), "r_Data": .bool(true),
        ]
        return keychain.copyMatching(query).items
    }

    /// Always the same answer.
    private struct Answering: KeychainCalls {
        let status: Int32
        func add(_ attributes: Attributes) -> Int32 { status }
        func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes]) { (status, []) }
        func update(_ query: Attributes, _ attributes: Attributes) -> Int32 { status }
        func delete(_ query: Attributes) -> Int32 { status }
    }

    // MARK: Conformance

    @Test(arguments: BackendConformance.all)
    func conformsOnMacOS(_ requirement: BackendConformance) throws {
        let keychain = KeychainSimulator(platform: .macOS)
        try requirement.check(
            damage: { _, key in
                let query: KeychainCalls.Attributes = [
                    "class": .text("genp"), "nleg": .bool(true), "svce": .text(key.prefix),
                    "acct": .text(key.key),
                ]
                #expect(keychain.update(query, ["gena": .data(Data([1, 2, 3]))]) == 0)
            },
            { KeychainBackend(keychain) }
        )
    }

    @Test(arguments: BackendConformance.all)
    func conformsOniOSWithoutPasscode(_ requirement: BackendConformance) throws {
        try requirement.check {
            let keychain = KeychainSimulator(platform: .iOS, accessGroups: ["T.app", "T.shared"])
            keychain.hasPasscode = false
            return KeychainBackend(keychain, accessGroup: "T.shared")
        }
    }

    // MARK: Stored items

    @Test func anItemIsAGenericPasswordOfTheDataProtectionKeychain() throws {
        try backend.write(item("v", "Cafe\u{301}", .afterFirstUnlock, label: "l"), policy: .replace)
        let stored = try #require(stored.first)
        #expect(stored["svce"] == .text("p") && stored["v_Data"] == .data(Data("v".utf8)))
        #expect(stored["acct"]?.data == Data("Caf\u{E9}".utf8))
        #expect(stored["pdmn"] == .text("ck") && stored["labl"] == .text("l") && stored["icmt"] == .text(""))
        #expect(
            stored["crtr"] == .int(0x4C4B_4258) && stored["sync"] == .int(0)
                && stored["agrp"] == .text("T.app")
        )
    }

    @Test func equalItemsHaveDifferentRevisions() throws {
        try backend.write(item(), policy: .replace)
        let first = stored.first?["gena"]
        try backend.write(item(), policy: .replace)
        #expect(first != nil && stored.first?["gena"] != first)
    }

    @Test func itemsOfOtherProgramsAreNotSeen() throws {
        let foreign: KeychainCalls.Attributes = [
            "class": .text("genp"), "nleg": .bool(true), "svce": .text("p"), "acct": .text("k"),
        ]
        #expect(keychain.add(foreign) == 0)
        #expect(try text() == nil)
        #expect(try backend.attributes(prefix: "p", now: now).isEmpty && backend.prefixes().isEmpty)
        let expected = LockboxError.keychainFailure(
            operation: "SecItemAdd",
            status: -25299,
            reason:
                "another program's item has the service and account of the item for the key \"k\"; use another prefix or key"
        )
        #expect(throws: expected) { try backend.write(item(), policy: .replace) }
        try backend.remove(key())
        try backend.removeAll(prefix: "p")
        #expect(stored.count == 1)
        keychain.isLocked = true
        #expect(throws: expected) { try backend.write(item("v", "k", .always), policy: .replace) }
    }

    @Test func damagedMetadataIsNamedAndCanBeRemoved() throws {
        try backend.write(item("kept", "kept"), policy: .replace)
        for (bytes, code) in [
            ([], .corrupt), ([1, 2, 3], .corrupt),
            ([9] + [UInt8](repeating: 0, count: 47), .unsupportedVersion),
        ] as [([UInt8], LockboxError.Code)] {
            try backend.remove(key())
            try backend.write(item(), policy: .replace)
            let query: KeychainCalls.Attributes = [
                "class": .text("genp"), "nleg": .bool(true), "acct": .text("k"),
            ]
            #expect(keychain.update(query, ["gena": .data(Data(bytes))]) == 0)
            expectError(code) { _ = try text() }
            expectError(code) { try backend.write(item(), policy: .replace) }
            expectError(code) { _ = try backend.attributes(prefix: "p", now: now) }
            let list = try backend.lockbox("p").list()
            #expect(list.items.keys.sorted() == ["kept"] && list.unreadable.map(\.key?.key) == ["k"])
        }
        try backend.remove(key())
        #expect(try text() == nil)
    }

    @Test func whatCannotBeReadCanBeRemoved() throws {
        let lockbox = try backend.lockbox("p")
        try backend.write(item(), policy: .replace)
        // Without a key, and without metadata.
        for account in ["", "x"] {
            let damaged: KeychainCalls.Attributes = [
                "class": .text("genp"), "nleg": .bool(true), "svce": .text("p"), "acct": .text(account),
                "crtr": .int(KeychainBackend.creator), "pdmn": .text("ck"),
            ]
            #expect(keychain.add(damaged) == 0)
        }
        let list = try lockbox.list()
        #expect(Set(list.unreadable.map(\.key?.key)) == [nil, "x"] && list.items.keys.sorted() == ["k"])
        for unreadable in list.unreadable { try lockbox.remove(unreadable) }
        #expect(try lockbox.list().unreadable.isEmpty && text() == "v")
        for unreadable in list.unreadable { try lockbox.remove(unreadable) }
        expectError(.notSupported) { try lockbox.quarantine(list.unreadable[0]) }
        for record in [
            "", "zz", "6", "67656e70", String(repeating: "0", count: 40),
            "67656e70" + String(repeating: "\u{E9}", count: 32),
        ] {
            expectError(record == "67656e70" ? .keychainFailure : .invalidKey, "\(record)") {
                try backend.remove(record: record)
            }
        }
        // Another program's item is not removed.
        #expect(keychain.add(["class": .text("genp"), "nleg": .bool(true), "svce": .text("foreign")]) == 0)
        let query: KeychainCalls.Attributes = [
            "class": .text("genp"), "nleg": .bool(true), "svce": .text("foreign"),
            "r_PersistentRef": .bool(true),
        ]
        let reference = try #require(keychain.copyMatching(query).items.first?["v_PersistentRef"]?.data)
        try backend.remove(record: reference.hexadecimal)
        #expect(keychain.copyMatching(query).status == 0)
    }

    @Test func anotherProgramsChangeOfTheValueAloneIsNoticed() throws {
        try backend.write(item(), policy: .replace)
        let query: KeychainCalls.Attributes = [
            "class": .text("genp"), "nleg": .bool(true), "acct": .text("k"),
        ]
        #expect(keychain.update(query, ["v_Data": .data(Data("longer".utf8))]) == 0)
        expectError(.corrupt) { _ = try text() }
    }

    @Test func metadataSurvivesEveryCut() throws {
        let attributes = try StoredItem(
            key: key(),
            value: ArchivedValue(data: Data([1]), format: .json),
            modified: now,
            comment: "c",
            searchable: ["b": "2", "a": ""]
        ).attributes
        let bytes = KeychainMetadata.bytes(attributes)
        func read(_ bytes: Data) throws -> ItemAttributes {
            try KeychainMetadata.attributes(
                ["gena": .data(bytes), "pdmn": .text("ak"), "icmt": .text("c")],
                "it"
            )
        }
        #expect(try read(bytes) == attributes)
        for length in 0..<bytes.count { expectError(.corrupt) { _ = try read(bytes.prefix(length)) } }
        expectError(.corrupt) { _ = try read(bytes + [0]) }
    }

    @Test func aValueAboveTheLimitIsRefused() throws {
        let limit = backend.maximumValueSize
        #expect(limit == 1_048_576)
        let large = try StoredItem(
            key: key(),
            value: ArchivedValue(data: Data(count: limit + 1), format: .data),
            modified: now
        )
        #expect(throws: LockboxError.valueTooLarge(size: limit + 1, limit: limit)) {
            try backend.write(large, policy: .replace)
        }
        #expect(stored.isEmpty)
    }

    // MARK: Locked items

    @Test func aLockedItemIsNeitherAbsentNorLeftOut() throws {
        try backend.write(item("v", "open", .afterFirstUnlock), policy: .replace)
        try backend.write(item("v", "k", .whenUnlockedThisDeviceOnly), policy: .replace)
        keychain.isLocked = true
        let locked = Accessibility.whenUnlockedThisDeviceOnly
        #expect(lockedClass { _ = try text() } == locked)
        #expect(lockedClass { _ = try backend.attributes(for: key(), now: now) } == locked)
        #expect(lockedClass { _ = try backend.attributes(prefix: "p", now: now) } == locked)
        #expect(lockedClass { _ = try backend.prefixes() } == locked)
        #expect(lockedClass { try backend.write(item("new", "k", locked), policy: .replace) } == locked)
        #expect(
            lockedClass { try backend.write(item("v", "new", .whenUnlocked), policy: .replace) }
                == .whenUnlocked
        )
        #expect(
            lockedClass { try backend.setAccessibility(.whenUnlocked, for: key("open"), now: now) }
                == .whenUnlocked
        )
        #expect(try text("open") == "v" && text("absent") == nil)
        // Another prefix can be listed.
        #expect(try backend.attributes(prefix: "q", now: now).isEmpty)
        try backend.remove(key())
        #expect(try backend.attributes(prefix: "p", now: now).count == 1)
        keychain.isLocked = false
        try backend.write(item(), policy: .replace)
        keychain.isLocked = true
        try backend.removeAll(prefix: "p")
        #expect(try backend.prefixes().isEmpty)
    }

    // MARK: Groups, synchronizable items, entitlements

    @Test func groupsAndKindsAreKeptApart() throws {
        let shared = KeychainBackend(keychain, accessGroup: "T.shared")
        let own = KeychainBackend(keychain, accessGroup: "T.app")
        let cloud = KeychainBackend(keychain, accessGroup: "T.app", isSynchronizable: true)
        try shared.write(item("shared"), policy: .addOnly)
        try own.write(item("own"), policy: .addOnly)
        try cloud.write(item("cloud"), policy: .addOnly)
        #expect(try [text("k", shared), text("k", own), text("k", cloud)] == ["shared", "own", "cloud"])
        // It is not known which of the two is meant.
        for body in [
            { _ = try backend.item(for: key(), now: now) },
            { _ = try backend.attributes(prefix: "p", now: now) },
            { try backend.write(item(), policy: .replace) },
        ] as [() throws -> Void] { expectError(.keychainFailure, from: body) }
        try own.removeAll(prefix: "p")
        #expect(try [text("k", shared), text("k", own), text("k", cloud)] == ["shared", nil, "cloud"])
        expectError(.keychainFailure) { try KeychainBackend(keychain, accessGroup: "T.x").remove(key()) }
        let bound = try item("v", "b", .afterFirstUnlockThisDeviceOnly)
        expectError(.invalidAttribute) { try cloud.write(bound, policy: .replace) }
    }

    @Test(arguments: KeychainSimulator.Platform.allCases)
    func withoutEntitlementNothingIsAbsent(_ platform: KeychainSimulator.Platform) throws {
        let keychain = KeychainSimulator(platform: platform, accessGroups: [])
        let backend = KeychainBackend(keychain)
        for body in [
            { _ = try backend.value(for: key(), now: now) }, { _ = try backend.prefixes() },
            { _ = try backend.attributes(prefix: "p", now: now) }, { try backend.remove(key()) },
            { try backend.write(item(), policy: .replace) },
        ] as [() throws -> Void] {
            do {
                try body()
                Issue.record("no error")
            } catch let error as LockboxError { #expect(error._code == -34018) }
        }
    }

    @Test func theEntitlementIsLookedForOnce() throws {
        let deletions = Protected(0)
        let backend = KeychainBackend(
            InterruptedKeychain(keychain: keychain) { call in
                if call == .delete { deletions.withLock { $0 += 1 } }
                return nil
            }
        )
        for _ in 0..<3 { #expect(try text("k", backend) == nil) }
        #expect(deletions.withLock { $0 } == 1)
    }

    @Test(arguments: [
        -4, -34, -36, -50, -128, -25291, -25293, -25299, -25303, -25306, -25308, -26275, -34018, -34019,
    ])
    func aStatusIsKept(_ status: Int32) throws {
        let backend = KeychainBackend(Answering(status: status))
        for body in [{ _ = try backend.value(for: key(), now: now) }, { try backend.remove(key()) }]
            as [() throws -> Void]
        {
            do {
                try body()
                Issue.record("no error")
            } catch let error as LockboxError { #expect(error._code == Int(status), "\(error)") }
        }
    }

    @Test func aMissingPasscodeIsNotADenial() throws {
        keychain.hasPasscode = false
        expectError(.passcodeNotSet) {
            try backend.write(item("v", "k", .whenPasscodeSetThisDeviceOnly), policy: .replace)
        }
    }

    @Test func elsewhereTheSystemHasNoKeychain() throws {
        #if !canImport(Security)
            expectError(.notReachable) { _ = try KeychainBackend().item(for: key(), now: now) }
            expectError(.notReachable) { try KeychainBackend().write(item(), policy: .replace) }
        #endif
    }

    // MARK: Other writers

    @Test func manyBackendsCountWithoutALock() throws {
        let failures = Protected(0)
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            do {
                // Each with a backend of its own, like processes.
                let lockbox = try KeychainBackend(keychain).lockbox("p")
                for _ in 0..<200 { try lockbox.update("n", as: Int.self) { $0 = ($0 ?? 0) + 1 } }
            } catch { failures.withLock { $0 += 1 } }
        }
        #expect(failures.withLock { $0 } == 0)
        #expect(try backend.lockbox("p").unarchiveObject(Int.self, forKey: "n") == 800)
    }

    /// Runs `body` with another writer before the first call of a kind.
    private func race(
        _ call: InterruptedKeychain.Call,
        _ other: @escaping @Sendable () throws -> Void,
        _ body: (KeychainBackend) throws -> Void
    )
        throws
    {
        let isDone = Protected(false)
        try body(
            KeychainBackend(
                InterruptedKeychain(keychain: keychain) { next in
                    if next == call, isDone.raise() { try? other() }
                    return nil
                }
            )
        )
        #expect(isDone.withLock { $0 })
    }

    @Test func anotherWriterIsNotOverwritten() throws {
        let (others, backend) = (try item("other"), backend)
        // From absent: the add collides, and the closure runs again.
        var seen: [StoredItem?] = []
        try race(.add, { try backend.write(others, policy: .replace) }) {
            try $0.update(key(), now: now) { old in
                seen.append(old)
                return try item("mine")
            }
        }
        #expect(seen == [nil, others])
        try race(.add, { try backend.write(item("other", "two"), policy: .replace) }) { racing in
            expectError(.duplicateItem) { try racing.write(item("mine", "two"), policy: .addOnly) }
        }
        #expect(try text("two") == "other")
        // From an item: the update names the revision that was read.
        try race(.update, { try backend.write(others, policy: .replace) }) {
            try $0.update(key(), now: now) { old in
                let old = try #require(old)
                return try item("\(String(decoding: old.value.data, as: UTF8.self))+")
            }
        }
        #expect(try text() == "other+")
        // A removal names it, too.
        try race(.delete, { try backend.write(others, policy: .replace) }) {
            var count = 0
            try $0.update(key(), now: now) { old in
                count += 1
                return count == 1 ? nil : old
            }
        }
        #expect(try text() == "other")
        // An item that was removed meanwhile is made anew.
        try race(.update, { try backend.remove(others.key) }) {
            try $0.write(item("again"), policy: .replace)
        }
        #expect(try text() == "again")
    }

    @Test func afterManyRoundsItIsAConflict() throws {
        let (backend, item) = (backend, try item("other"))
        try backend.write(item, policy: .replace)
        let rounds = Protected(0)
        let racing = KeychainBackend(
            InterruptedKeychain(keychain: keychain) { call in
                guard call == .update else { return nil }
                rounds.withLock { $0 += 1 }
                try? backend.write(item, policy: .replace)
                return nil
            }
        )
        expectError(.conflict) { try racing.write(self.item("mine"), policy: .replace) }
        #expect(rounds.withLock { $0 } == 64)
        #expect(try text() == "other")
    }

    @Test func otherWritersMayBeFasterForAWhile() throws {
        let (backend, item) = (backend, try item("other"))
        try backend.write(item, policy: .replace)
        let end = ContinuousClock.now + .milliseconds(50)
        let racing = KeychainBackend(
            InterruptedKeychain(keychain: keychain) { call in
                if call == .update, .now < end { try? backend.write(item, policy: .replace) }
                return nil
            }
        )
        try racing.write(self.item("mine"), policy: .replace)
        #expect(try text() == "mine")
    }

    /// In two steps it would be under both keys for a moment.
    @Test func aMoveBesideOtherWritersIsOneStep() throws {
        let (backend, item) = (backend, try item("other"))
        try backend.write(item, policy: .replace)
        let end = ContinuousClock.now + .milliseconds(50)
        let adds = Protected(0)
        let racing = KeychainBackend(
            InterruptedKeychain(keychain: keychain) { call in
                if call == .update, .now < end { try? backend.write(item, policy: .replace) }
                if call == .add { adds.withLock { $0 += 1 } }
                return nil
            }
        )
        try racing.move(key(), to: key("new"), policy: .replace, now: now)
        #expect(try text("new") == "other" && backend.item(for: key(), now: now) == nil)
        #expect(adds.withLock { $0 } == 0)
    }

    @Test func anExpiredItemIsReplacedByComparison() throws {
        try backend.write(item("old", expires: now), policy: .replace)
        let (backend, others) = (backend, try item("other"))
        #expect(try backend.item(for: key(), now: now) == nil && stored.count == 1)
        // Two that both see it expired: one of them adds.
        try race(.update, { try backend.write(others, policy: .addOnly) }) { racing in
            expectError(.duplicateItem) { try racing.write(item("mine"), policy: .addOnly) }
        }
        #expect(try text() == "other")
    }

    @Test func printingShowsNoItem() throws {
        try backend.write(item("hunter2"), policy: .replace)
        for text in textsOfPrinting(backend) { #expect(!text.contains("hunter2") && !text.contains("T.app")) }
        #expect("\(backend)" == "KeychainBackend(KeychainSimulator)")
    }
}
