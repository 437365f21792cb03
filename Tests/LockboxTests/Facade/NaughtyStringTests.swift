import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Strings that are known to break programs, as keys and as values.
@Suite struct NaughtyStringTests {
    @Test(.enabled(if: TestData.naughtyStrings.isPresent, "\(TestData.naughtyStrings.absence)"))
    func naughtyStringsAsKeysAndValues() throws {
        let strings = try TestData.naughtyStrings.load([String].self)
        #expect(strings.count == 515)
        let store = try TestStore()
        let lockbox = try store.lockbox()
        let keys = strings.filter { !$0.isEmpty }
        for (index, string) in strings.enumerated() {
            try lockbox.archiveObject(string, forKey: "value \(index)")
        }
        for key in keys {
            try lockbox.archiveObject(
                key,
                forKey: key,
                options: WriteOptions(label: .set(String(key.prefix(100))))
            )
        }

        let reopened = try store.lockbox()
        for (index, string) in strings.enumerated() {
            let value = try #require(try reopened.unarchiveObject(String.self, forKey: "value \(index)"))
            #expect(Array(value.utf8) == Array(string.utf8))
        }
        for key in keys {
            // Of equal keys, the last one's value.
            let last = keys.last { $0 == key }!
            let value = try #require(try reopened.unarchiveObject(String.self, forKey: key))
            #expect(Array(value.utf8) == Array(last.utf8))
        }
        #expect(try reopened.allKeys() == Set(keys).union(strings.indices.map { "value \($0)" }))
        expectError(.invalidKey) { try lockbox.archiveObject("", forKey: "") }
        expectError(.invalidKey) { try store.lockbox("") }
        for prefix in Set(keys) where !prefix.hasPrefix("\0") {
            let lockbox = try InMemoryBackend().lockbox(prefix)
            #expect(lockbox.keyPrefix == prefix)
        }
    }
}
