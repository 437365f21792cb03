#if SecretService
    @_spi(Extensions) import Lockbox
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform

    /// How an item of Lockbox is one of the keyring.
    ///
    /// The attributes `service` and `username` are the prefix and the key, as Python's keyring and go-keyring write them, so that each
    /// finds the other's items. The secret of a `String` is its text, and that of another value its encoded bytes. The attribute
    /// `lockbox` has what a keyring has no place for. If that is long, it is in front of the secret. An item without that attribute is
    /// another program's, and its secret is a `String`.
    struct ItemForm {
        static let service = "service"
        static let username = "username"
        private static let own = "lockbox"
        /// Of an item whose metadata is in front of the secret.
        private static let mark = Data("lockbox 1\n".utf8)
        private static let longest = 1024
        /// What Python's keyring replaces, it searches for with this attribute. gnome-keyring replaces any item that has at least the
        /// attributes of the new one.
        private static let application = ["application": "Python keyring library"]

        /// What the attribute `lockbox` has, as JSON.
        private struct Header: Codable {
            /// Greater than those of the item's former revisions.
            let revision: Int
            var metadata: Metadata?
        }

        let attributes: [String: String]
        let label: String
        let secret: Secret

        // MARK: Writing

        /// - Parameter old: What the item replaces, the newest first. Another program's attributes stay.
        init(_ item: StoredItem, replacing old: [KeyringItem]) throws {
            let text = Self.text(item.value)
            let metadata = Metadata(item.attributes, isText: text != nil)
            let last = old.compactMap { Self.header($0)?.revision }.max() ?? 0
            var header = Header(revision: last &+ 1, metadata: metadata)
            let json = try JSONEncoder().encode(metadata)
            var bytes = text.map { Data($0.utf8) } ?? item.value.data
            if json.count > Self.longest || bytes.starts(with: Self.mark) {
                header.metadata = nil
                bytes = Self.mark + json + Data("\n".utf8) + bytes
            }
            var attributes = Self.application.merging(old.first?.attributes ?? [:]) { $1 }
            attributes.merge(Self.attributes(of: item.key)) { $1 }
            attributes[Self.own] = String(decoding: try JSONEncoder().encode(header), as: UTF8.self)
            self.attributes = attributes
            let name = item.attributes.label ?? "\(item.key.key) (\(item.key.prefix))"
            // For people. D-Bus takes no NUL, and keyrings no label of any length.
            label = String(name.unicodeScalars.prefix(500).map { $0 == "\0" ? " " : Character($0) })
            secret = Secret(
                value: bytes,
                contentType: text == nil ? "application/octet-stream" : AttributeNames.defaultContentType
            )
        }

        /// Returns the text of an archived `String`, if its encoding can be made again from that.
        private static func text(_ value: ArchivedValue) -> String? {
            guard value.format == .json,
                let text = try? JSONValueCoder().decode(String.self, from: value.data),
                (try? JSONValueCoder().encode(text)) == value.data
            else { return nil }
            return text
        }

        // MARK: Reading

        /// Returns nil if that needs the secret.
        static func attributes(_ key: ItemKey, _ found: KeyringItem) throws(LockboxError) -> ItemAttributes? {
            try header(found)?.metadata?.attributes(size: nil, location(of: key))
        }

        /// - Throws: ``LockboxError/corrupt(record:reason:)``.
        static func item(_ key: ItemKey, _ found: KeyringItem, _ secret: Secret) throws(LockboxError)
            -> StoredItem
        {
            let record = location(of: key)
            guard found.attributes[own] != nil else { return try item(key, another: found, secret) }
            guard let header = header(found) else { throw malformed(record) }
            var (metadata, bytes) = (header.metadata, secret.value)
            if metadata == nil {
                guard bytes.starts(with: mark), let end = bytes.dropFirst(mark.count).firstIndex(of: 10)
                else {
                    throw malformed(record)
                }
                let json = bytes[mark.endIndex..<end]
                metadata = try? JSONDecoder().decode(Metadata.self, from: Data(json))
                bytes = Data(bytes[(end + 1)...])
            }
            guard let metadata else { throw malformed(record) }
            let value =
                try metadata.isText
                ? archived(bytes, record) : ArchivedValue(data: bytes, format: metadata.format)
            return StoredItem(
                key: key,
                value: value,
                checked: try metadata.attributes(size: value.data.count, record)
            )
        }

        private static func archived(_ text: Data, _ record: String) throws(LockboxError) -> ArchivedValue {
            guard let text = String(validating: text, as: UTF8.self),
                let json = try? JSONValueCoder().encode(text)
            else { throw .corrupt(record: .record(record), reason: "its secret is no text") }
            return try ArchivedValue(data: json, format: .json)
        }

        private static func item(_ key: ItemKey, another found: KeyringItem, _ secret: Secret)
            throws(LockboxError)
            -> StoredItem
        {
            let isText = String(validating: secret.value, as: UTF8.self) != nil
            return try StoredItem(
                key: key,
                value: isText
                    ? archived(secret.value, location(of: key))
                    : ArchivedValue(data: secret.value, format: .data),
                created: Date(timeIntervalSince1970: TimeInterval(found.created)),
                modified: Date(timeIntervalSince1970: TimeInterval(found.modified)),
                label: found.label.isEmpty ? nil : found.label
            )
        }

        private static func malformed(_ record: String) -> LockboxError {
            .corrupt(record: .record(record), reason: "its attribute lockbox is not well-formed")
        }

        private static func header(_ found: KeyringItem) -> Header? {
            found.attributes[own].flatMap { try? JSONDecoder().decode(Header.self, from: Data($0.utf8)) }
        }

        /// Returns the items for one key, the one that counts first.
        ///
        /// Lockbox adds a new item before it removes the old one. Another program's counts if it is not older: when Lockbox wrote last, no
        /// other was left. Dates have whole seconds.
        static func sorted(_ items: [KeyringItem]) -> [KeyringItem] {
            let own = items.filter { $0.attributes[Self.own] != nil }.sorted {
                (header($0)?.revision ?? .max, $0.path) > (header($1)?.revision ?? .max, $1.path)
            }
            let others = items.filter { $0.attributes[Self.own] == nil }.sorted {
                ($0.modified, $0.created, $0.path) > ($1.modified, $1.created, $1.path)
            }
            guard let first = own.first, let other = others.first else { return own + others }
            return other.modified >= first.modified ? others + own : own + others
        }

        // MARK: Keys

        static func location(of key: ItemKey) -> String {
            "service \(String(reflecting: key.prefix.canonical)), username \(String(reflecting: key.key.canonical))"
        }

        static func attributes(of key: ItemKey) -> [String: String] {
            [service: name(key.prefix), username: name(key.key)]
        }

        /// Texts of D-Bus have no NUL, with which Lockbox's own prefixes begin.
        static func name(_ part: String) -> String {
            let text = part.canonical
            guard text.utf8.contains(0) || text.hasPrefix(escape) else { return text }
            return escape + text.utf8.hexadecimal
        }

        /// Returns nil for an item that can have no key.
        static func key(_ found: KeyringItem) -> ItemKey? {
            guard let service = found.attributes[service], let username = found.attributes[username] else {
                return nil
            }
            return try? ItemKey(storedPrefix: part(service), key: part(username))
        }

        private static let escape = "lockbox.hex."

        private static func part(_ name: String) -> String {
            guard name.hasPrefix(escape), let bytes = Data(hexadecimal: String(name.dropFirst(escape.count))),
                let text = String(validating: bytes, as: UTF8.self), self.name(text) == name
            else { return name }
            return text
        }
    }

    /// What a keyring has no place for.
    private struct Metadata: Codable {
        let accessibility: Accessibility
        let created, modified: Date
        let expires: Date?
        let label, comment: String?
        let searchable: [String: String]
        let format: ValueFormat
        let size: Int
        /// Whether the secret is the text of a `String`.
        let isText: Bool

        init(_ attributes: ItemAttributes, isText: Bool) {
            accessibility = attributes.accessibility
            (created, modified, expires) = (attributes.created, attributes.modified, attributes.expires)
            (label, comment, searchable) = (attributes.label, attributes.comment, attributes.searchable)
            (format, size) = (attributes.format, attributes.size)
            self.isText = isText
        }

        /// - Parameter size: That of the value that was read, which another program may have changed.
        func attributes(size: Int?, _ record: String) throws(LockboxError) -> ItemAttributes {
            do {
                return try ItemAttributes(
                    accessibility: accessibility,
                    created: created,
                    modified: modified,
                    expires: expires,
                    label: label,
                    comment: comment,
                    searchable: searchable,
                    size: size ?? self.size,
                    format: format
                )
            } catch { throw .corrupt(record: .record(record), reason: "its attributes are not valid") }
        }
    }
#endif
