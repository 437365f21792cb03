public import LockboxCore
public import LockboxPlatform

extension KeychainBackend {
    /// Returns the attributes of every item with a prefix. Throws if one of the items is locked.
    public func attributes(prefix: String, now: Date?) throws(LockboxError) -> [ItemKey: ItemAttributes] {
        var items: [ItemKey: ItemAttributes] = [:]
        for entry in try entries(prefix) {
            let (key, attributes) = try entry.item.get()
            if !attributes.isExpired(at: now) { items[key] = attributes }
        }
        return items
    }

    /// Calls a closure with the attributes of every item with a prefix. Throws if one of the items is locked.
    public func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        for entry in try entries(prefix) {
            switch entry.item {
            case .success(let (key, attributes)):
                if !attributes.isExpired(at: now) { try body(key, attributes) }
            case .failure(let error):
                try unreadable(
                    UnreadableItem(
                        key: entry.key,
                        record: entry.record,
                        location: "the Keychain",
                        error: error
                    )
                )
            }
        }
    }

    /// An item in a list. The key is nil if the item's account is none.
    private typealias Entry = (
        key: ItemKey?, record: String, item: Result<(ItemKey, ItemAttributes), LockboxError>
    )

    private func entries(_ prefix: String) throws(LockboxError) -> [Entry] {
        let query = query(prefix: prefix)
        var seen: Set<ItemKey> = []
        return try all(query, withValue: false).map { found in
            let key = found[KeychainName.attrAccount]?.text.flatMap {
                try? ItemKey(storedPrefix: prefix, key: $0)
            }
            let item = Result { () throws(LockboxError) in
                guard let key else {
                    let record = "an item of the service \(String(reflecting: prefix))"
                    throw .corrupt(record: record, reason: "its account is not a key")
                }
                if !seen.insert(key).inserted { throw severalGroups(key) }
                return (key, try KeychainMetadata.attributes(found, key.location))
            }
            return (key, found[KeychainName.valuePersistentRef]?.data?.hexadecimal ?? "", item)
        }
    }

    /// Returns every prefix that has items. Throws if an item of any prefix is locked.
    public func prefixes() throws(LockboxError) -> Set<String> {
        let services = try all(query, withValue: false).compactMap { $0[KeychainName.attrService]?.text }
        return Set(services.filter { !$0.isEmpty && !ItemKey.isReserved(prefix: $0) })
    }
}
