#if SecretService
    @_spi(Extensions) import Lockbox
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    import LockboxStore

    /// A collection: the items of one prefix, in the store or in memory.
    struct Collection {
        /// The bounds for what is in memory.
        private enum Limit {
            static let items = 1000
            static let bytes = 64 << 20
        }

        /// The last part of its path.
        let name: String
        let backend: any LockboxBackend
        /// The key prefix of its items.
        let prefix: String
        let defaultLabel: String
        private let index: ItemIndex

        init(_ name: String, _ backend: any LockboxBackend, prefix: String, label: String) {
            (self.name, self.backend, self.prefix, defaultLabel) = (name, backend, prefix, label)
            index = ItemIndex(backend, prefix: prefix)
        }

        var path: String { "\(SecretPath.root)/collection/\(name)" }

        /// The item that has its label.
        private var record: ItemKey { get throws { try ItemKey(prefix: SecretPath.records, key: name) } }

        var attributes: ItemAttributes? { get throws { try backend.attributes(for: record, now: nil) } }

        var label: String { get throws { try attributes?.label ?? defaultLabel } }

        /// Whether secrets need an unlock. Names and attributes do not.
        var isLocked: Bool {
            get throws { [.locked, .beforeFirstUnlock].contains(try backend.lockState) }
        }

        func checkUnlocked() throws { if try isLocked { throw BusError.locked } }

        /// The name under which a program has created it.
        var alias: String? { get throws { try attributes?.searchable[Self.alias] } }

        private static let alias = "alias"

        /// Creates it, if it has no label yet.
        ///
        /// - Parameter alias: Only for a new one; it can be empty.
        func setLabel(_ label: String, alias: String = "") throws {
            try checkUnlocked()
            let value = try ArchivedValue(data: Data(), format: .data)
            let options = WriteOptions(
                label: .set(label),
                attributes: alias.isEmpty ? .unchanged : .set([Self.alias: alias])
            )
            try backend.write(ItemChanges(value: value, options: options, modified: Date()), to: record)
        }

        func remove() throws {
            try checkUnlocked()
            try backend.removeAll(prefix: prefix)
            try backend.remove(record)
        }

        // MARK: Items

        /// Returns the items that have all of these attributes, the newest first.
        ///
        /// Programs write different attributes for the same account, and take the first item that they find.
        func items(with attributes: [String: String] = [:]) throws -> [Item] {
            try index.items(with: AttributeNames.encode(attributes)).map { key, attributes in
                Item(collection: self, key: key, attributes: attributes)
            }
            .sorted()
        }

        func item(for key: ItemKey) throws -> Item? {
            try backend.attributes(for: key, now: Date()).map {
                Item(collection: self, key: key, attributes: $0)
            }
        }

        /// Stores a secret: in place of the newest item with the same attributes, if there is one and it is to be replaced.
        func store(_ secret: Secret, label: String?, attributes: [String: String], replacing: Bool) throws
            -> (item: Item, isNew: Bool)
        {
            try checkUnlocked()
            let old = replacing ? try items(with: attributes).first { $0.hasExactly(attributes) } : nil
            try checkRoom(for: secret.value.count, inPlaceOf: old)
            let key = try old?.key ?? ItemKey(prefix: prefix, key: SecretPath.newElement)
            let options = WriteOptions(
                label: label.map { .set($0) } ?? .unchanged,
                attributes: .set(AttributeNames.encode(attributes, contentType: secret.contentType))
            )
            let value = try ArchivedValue(data: secret.value, format: .data)
            try backend.write(ItemChanges(value: value, options: options, modified: Date()), to: key)
            guard let item = try item(for: key) else { throw BusError.noObject("of the new item") }
            index.note(key, item.attributes)
            return (item, old == nil)
        }

        func remove(_ item: Item) throws {
            try checkUnlocked()
            try backend.remove(item.key)
            index.note(item.key, nil)
        }

        func path(of key: ItemKey) -> String { "\(path)/\(SecretPath.element(of: key.key))" }

        /// Memory has bounds; the store has its own.
        fileprivate func checkRoom(for size: Int, inPlaceOf old: Item?) throws {
            guard backend is InMemoryBackend else { return }
            let items = try items().filter { $0.key != old?.key }
            if items.count >= Limit.items || items.reduce(size, { $0 + $1.attributes.size }) > Limit.bytes {
                throw BusError.tooMuch("The collection in memory is full. Remove items.")
            }
        }
    }

    /// An item of a collection, without its secret.
    struct Item: Comparable {
        let collection: Collection
        let key: ItemKey
        let attributes: ItemAttributes

        var path: String { collection.path(of: key) }

        var secretAttributes: [String: String] { AttributeNames.decode(attributes.searchable) }

        /// Byte by byte: for Swift, texts in two forms of Unicode are equal.
        func hasExactly(_ attributes: [String: String]) -> Bool {
            func bytes(_ attributes: [String: String]) -> Set<[[UInt8]]> {
                Set(AttributeNames.withSchema(attributes).map { [Array($0.utf8), Array($1.utf8)] })
            }
            return bytes(secretAttributes) == bytes(attributes)
        }

        func secret() throws -> Secret {
            guard let item = try collection.backend.item(for: key, now: Date()) else {
                throw BusError.noObject(path)
            }
            let contentType = AttributeNames.contentType(of: item.attributes.searchable)
            // The command stores texts as JSON.
            if item.value.format == .json,
                let text = try? JSONValueCoder().decode(String.self, from: item.value.data)
            {
                return Secret(value: Data(text.utf8), contentType: contentType)
            }
            return Secret(value: item.value.data, contentType: contentType)
        }

        func change(_ value: Data? = nil, _ options: WriteOptions) throws {
            try collection.checkUnlocked()
            if let value { try collection.checkRoom(for: value.count, inPlaceOf: self) }
            let value = try value.map { try ArchivedValue(data: $0, format: .data) }
            var options = options
            if value != nil { options.policy = .updateOnly }
            try collection.backend.write(
                ItemChanges(value: value, options: options, modified: Date()),
                to: key
            )
        }

        func setSecret(_ secret: Secret) throws {
            let searchable = AttributeNames.encode(secretAttributes, contentType: secret.contentType)
            try change(secret.value, WriteOptions(attributes: .set(searchable)))
        }

        func setAttributes(_ new: [String: String]) throws {
            let contentType = AttributeNames.contentType(of: attributes.searchable)
            try change(
                nil,
                WriteOptions(attributes: .set(AttributeNames.encode(new, contentType: contentType)))
            )
        }

        /// The newest is the least.
        static func < (one: Item, other: Item) -> Bool {
            let (a, b) = (one.attributes, other.attributes)
            return (b.modified, b.created, other.key.key) < (a.modified, a.created, one.key.key)
        }

        static func == (one: Item, other: Item) -> Bool { one.path == other.path }
    }
#endif
