import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore
@testable import LockboxTestProcess

/// Stores that earlier versions made still open, and what they refused is still refused.
@Suite(.tags(.argon2id)) struct VectorTests {
    private static let vectors = Result {
        let url = try #require(Bundle.module.url(forResource: "Vectors/v1", withExtension: "json"))
        return try JSONDecoder().decode(Vectors.self, from: Data(contentsOf: url))
    }

    /// The vectors' store, in a fresh folder.
    private func store(_ vectors: Vectors) throws -> TestStore {
        try store(vectors.deviceKey, vectors.keybag, vectors.items)
    }

    private func store(_ deviceKey: Data, _ keybag: Data, _ items: [Vectors.Item]) throws -> TestStore {
        let store = try TestStore()
        mkdir(store.directory, 0o700)
        mkdir("\(store.directory)/items", 0o700)
        try overwriteBoth(store.deviceKey, Array(deviceKey))
        try overwriteBoth(store.keybag, Array(keybag))
        for item in items {
            mkdir(Path.parent(of: "\(store.directory)/\(item.path)"), 0o700)
            try overwrite("\(store.directory)/\(item.path)", Array(item.record))
        }
        return store
    }

    @Test func everyItemReadsBack() throws {
        let vectors = try Self.vectors.get()
        let backend = try store(vectors).backend()
        for item in vectors.items {
            let expected = try StoredItem(
                key: ItemKey(prefix: item.prefix, key: item.key),
                value: ArchivedValue(data: item.value, format: ValueFormat(rawValue: item.format)),
                accessibility: #require(Accessibility(rawValue: item.accessibility)),
                created: Date(timeIntervalSinceReferenceDate: item.created),
                modified: Date(timeIntervalSinceReferenceDate: item.modified),
                expires: item.expires.map(Date.init(timeIntervalSinceReferenceDate:)),
                label: item.label,
                comment: item.comment,
                searchable: item.attributes ?? [:]
            )
            #expect(try backend.item(for: expected.key, now: .distantPast) == expected)
            #expect(
                try backend.attributes(prefix: item.prefix, now: .distantPast)[expected.key]
                    == expected.attributes
            )
        }
        #expect(try backend.prefixes() == Set(vectors.items.map(\.prefix)))
        #expect(vectors.items.count == 14)
    }

    /// Each of the three ways to unlock opens what it is made for.
    @Test func everySlotOpensItsClasses() throws {
        let vectors = try Self.vectors.get().slots
        let methods: [any UnlockMethod] = [
            .passcode(.value(vectors.passcode)), .recoveryCode(.value(vectors.recoveryCode)),
            .key(.bytes(Array(vectors.key))),
        ]
        for method in methods {
            let backend = try store(vectors.deviceKey, vectors.keybag, vectors.items).backend()
            try backend.unlock(with: method)
            for item in vectors.items {
                let key = try ItemKey(prefix: item.prefix, key: item.key)
                let isOpen = method.kind != .key || !item.accessibility.hasPrefix("ak")
                guard isOpen else {
                    expectError(.interactionNotAllowed) { try backend.value(for: key, now: nil) }
                    continue
                }
                #expect(
                    try backend.value(for: key, now: nil)?.data == item.value,
                    "\(method.kind): \(item.key)"
                )
            }
        }
        #expect(vectors.items.count == Accessibility.allCases.count)
    }

    @Test func everyRefusedRecordIsRefused() throws {
        let vectors = try Self.vectors.get()
        let store = try store(vectors)
        let key = try ItemKey(prefix: vectors.items[0].prefix, key: vectors.items[0].key)
        let path = "\(store.directory)/\(vectors.items[0].path)"
        for refused in vectors.refused {
            try overwrite(path, Array(refused.record))
            let error = lockboxError { try store.backend().item(for: key, now: .distantPast) }
            #expect(
                error?.code == refused.error,
                "\(refused.description): \(String(describing: error))"
            )
            #expect(try readBytes(path) == Array(refused.record), "\(refused.description)")
        }
        #expect(vectors.refused.count == 34)
    }

    /// An old store is also written to.
    @Test func anOldStoreIsCarriedOn() throws {
        let store = try store(Self.vectors.get())
        let lockbox = try store.lockbox("com.example.app")
        try lockbox.archiveObject("new", forKey: "token")
        try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "session")
        try lockbox.removeObject(forKey: "custom")
        #expect(try store.lockbox("com.example.app").unarchiveObject(forKey: "token") == "new")
        #expect(try lockbox.allKeys() == ["token", "session", "empty", "Cafe\u{301} 🔑", "large"])
    }
}
