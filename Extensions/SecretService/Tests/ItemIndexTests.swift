#if SecretService
    import Foundation
    import LockboxStore
    import Testing

    @testable @_spi(Extensions) import LockboxCore
    @testable import LockboxSecretService

    struct ItemIndexTests {
        @Test("What another process has written or removed is seen at once, however soon it follows")
        func seesEveryChange() throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let (own, other) = (SealedBackend(directory: folder), SealedBackend(directory: folder))
            let index = ItemIndex(own, prefix: SecretPath.items)
            #expect(try index.items().isEmpty)
            let value = try ArchivedValue(data: Data(), format: .data)
            for number in 0..<100 {
                let key = try ItemKey(prefix: SecretPath.items, key: "k\(number % 3)")
                let options = WriteOptions(label: .set("\(number)"))
                try other.write(ItemChanges(value: value, options: options, modified: Date()), to: key)
                #expect(try index.items()[key]?.label == "\(number)")
                // Often enough that what was read is trusted.
                if number.isMultiple(of: 10) { usleep(60_000) }
                #expect(try index.items()[key]?.label == "\(number)")
            }
            try other.removeAll(prefix: SecretPath.items)
            #expect(try index.items().isEmpty)
        }

        /// Forwards what an index calls, and counts how often it reads all items.
        private final class Counting: LockboxBackend {
            let store: SealedBackend
            let count = Guarded(0)

            init(_ store: SealedBackend) { self.store = store }

            func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
                try store.item(for: key, now: now)
            }
            func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
                try store.attributes(prefix: prefix, now: now)
            }
            func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
                try store.attributes(for: key, now: now)
            }
            var lockState: LockState { get throws { try store.lockState } }
            func prefixes() throws -> Set<String> { try store.prefixes() }
            func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
                try store.update(key, now: now, change)
            }
            func remove(_ key: ItemKey) throws { try store.remove(key) }
            func location(of key: ItemKey) throws -> String? { try store.location(of: key) }
            func forEachItem(
                prefix: String,
                now: Date?,
                unreadable: (UnreadableItem) throws -> Void,
                _ body: (ItemKey, ItemAttributes) throws -> Void
            ) throws {
                count.withLock { $0 += 1 }
                try store.forEachItem(prefix: prefix, now: now, unreadable: unreadable, body)
            }
        }

        @Test("After a change, only what has changed is read: all items only for another process's new one")
        func readsWhatHasChanged() throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let counting = Counting(SealedBackend(directory: folder))
            let collection = Collection("login", counting, prefix: SecretPath.items, label: "Login")
            let secret = Secret(value: Data("hunter2".utf8), contentType: AttributeNames.defaultContentType)
            func store(_ name: String) throws -> Item {
                try collection.store(secret, label: name, attributes: ["name": name], replacing: true).item
            }
            for number in 0..<20 {
                let item = try store("\(number)")
                #expect(try collection.items(with: ["name": "\(number)"]).count == 1)
                try item.setAttributes(["name": "changed"])
                #expect(try collection.items(with: ["name": "changed"]).count == (number + 1) / 2 + 1)
                try collection.item(for: item.key)?.setSecret(secret)
                if number.isMultiple(of: 2) { continue }
                try collection.remove(item)
                #expect(try collection.items(with: ["name": "changed"]).count == number / 2 + 1)
            }
            let reads = counting.count.withLock { $0 }
            // The first item makes the folder that is watched.
            #expect(reads <= 3)
            let other = SealedBackend(directory: folder)
            let new = try ItemKey(prefix: SecretPath.items, key: "new")
            let value = try ArchivedValue(data: Data(), format: .data)
            for label in ["one", "two", "three"] {
                let options = WriteOptions(label: .set(label))
                try other.write(ItemChanges(value: value, options: options, modified: Date()), to: new)
                #expect(try collection.items().contains { $0.attributes.label == label })
            }
            #expect(counting.count.withLock { $0 } == reads + 1)
            try other.remove(new)
            #expect(try collection.items().count == 10)
            #expect(counting.count.withLock { $0 } == reads + 1)
        }

        /// gnome-keyring gives the generic schema to items that have none, but only when it is started next.
        @Test("An item without a schema has the generic one")
        func genericSchema() throws {
            let collection = Collection("session", InMemoryBackend(), prefix: SecretPath.items, label: "l")
            let secret = Secret(value: Data(), contentType: AttributeNames.defaultContentType)
            func store(_ schema: String?) throws {
                var attributes = ["k": "v"]
                attributes["xdg:schema"] = schema
                _ = try collection.store(secret, label: schema, attributes: attributes, replacing: true)
            }
            func labels(_ attributes: [String: String]) throws -> Set<String?> {
                Set(try collection.items(with: attributes).map(\.attributes.label))
            }
            let generic = "org.freedesktop.Secret.Generic"
            try store("other")
            try store(nil)
            #expect(try labels(["k": "v", "xdg:schema": generic]) == [nil])
            #expect(try labels(["xdg:schema": "other"]) == ["other"])
            try store(generic)
            #expect(try labels([:]) == ["other", generic])
            try store(nil)
            #expect(try labels(["xdg:schema": generic]) == [generic])
            #expect(try labels([:]) == ["other", generic])
        }

        @Test("An item that has expired is not there")
        func expired() throws {
            let backend = InMemoryBackend()
            let key = try ItemKey(prefix: SecretPath.items, key: "k")
            let value = try ArchivedValue(data: Data(), format: .data)
            let options = WriteOptions(expires: .after(1))
            try backend.write(ItemChanges(value: value, options: options, modified: Date() - 60), to: key)
            #expect(try ItemIndex(backend, prefix: SecretPath.items).items().isEmpty)
        }
    }
#endif
