import LockboxKeychainTesting
import Foundation
import Testing

import Lockbox
import LockboxCore
import LockboxKeychain
import LockboxStore
import LockboxTesting

/// Calls that throw nothing but our errors say so: these tests are compiled only then.
@Suite struct TypedErrorTests {
    private struct Stubborn: Codable {
        init() {}
        init(from decoder: any Decoder) throws {}
        func encode(to encoder: any Encoder) throws { throw CancellationError() }
    }

    @Test func aBatch() throws {
        try Lockbox(keyPrefix: "p", backend: InMemoryBackend()).batch(addingNothing)
    }

    private func addingNothing(to batch: inout LockboxBatch) {
        do { try batch.archiveObject(Stubborn(), forKey: "k") } catch {
            #expect(error.code == .encodingFailed)
        }
        let key = LockboxKey<Stubborn>("k", default: Stubborn())
        do { try batch.archiveObject(Stubborn(), forKey: key) } catch {
            #expect(error.code == .encodingFailed)
        }
        #expect(batch.operations.isEmpty)
    }

    @Test func inMemory() throws {
        let (key, now) = (try ItemKey(prefix: "p", key: "k"), Date())
        let backend = InMemoryBackend()
        do { try backend.move(key, to: key, policy: .replace, now: now) } catch {
            #expect(error.code == .itemNotFound)
        }
        do { try backend.apply([.remove(key), .remove(key)]) } catch { #expect(error.code == .invalidKey) }
        let storage = InMemoryStorage()
        let record = RecordName(name: "r")
        _ = storage.commit([.put(record, [1, 2])], expecting: [:])
        do { _ = try storage.read([record], maximum: 1) } catch { #expect(error.code == .corrupt) }
    }

    @Test func theKeychain() throws {
        let (key, keychain) = (try ItemKey(prefix: "p", key: "k"), KeychainSimulator())
        let backend = KeychainBackend(keychain)
        try backend.write(
            StoredItem(
                key: key,
                value: ArchivedValue(data: Data(), format: .data),
                accessibility: .whenUnlocked,
                modified: Date()
            ),
            policy: .replace
        )
        keychain.hasPasscode = true
        keychain.isLocked = true
        let locked = LockboxError.interactionNotAllowed(.whenUnlocked)
        do { _ = try backend.item(for: key, now: nil) } catch { #expect(error == locked) }
        do { _ = try backend.attributes(for: key, now: nil) } catch { #expect(error == locked) }
        do { _ = try backend.attributes(prefix: "p", now: nil) } catch { #expect(error == locked) }
        do { _ = try backend.prefixes() } catch { #expect(error == locked) }
        do { try backend.remove(record: "r") } catch { #expect(error.code == .invalidKey) }
        do { _ = try backend.quarantine(record: "r") } catch { #expect(error.code == .notSupported) }
        do {
            try backend.remove(key)
            try backend.removeAll(prefix: "p")
        } catch { Issue.record("\(error.code)") }
    }
}
