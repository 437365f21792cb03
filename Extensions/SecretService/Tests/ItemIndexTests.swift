#if SecretService
    import Foundation
    import LockboxStore
    import Testing

    @testable import LockboxCore
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
