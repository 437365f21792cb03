@_spi(Extensions) public import LockboxCore
public import LockboxPlatform

extension KeychainBackend {
    /// Returns the attributes of every item with a prefix. Throws if one of the items is locked.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func attributes(prefix: String, now: Date?) throws(LockboxError) -> [ItemKey: ItemAttributes] {
        var items: [ItemKey: ItemAttributes] = [:]
        for entry in try entries(prefix) {
            let (key, attributes) = try entry.item.get()
            if !attributes.isExpired(at: now) { items[key] = attributes }
        }
        return items
    }

    /// Calls a closure with the attributes of every item with a prefix. Throws if one of the items is locked.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
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
                    throw .corrupt(record: .record(record), reason: "its account is not a key")
                }
                if !seen.insert(key).inserted { throw severalGroups(key) }
                return (key, try KeychainMetadata.attributes(found, key.name))
            }
            return (key, found[KeychainName.valuePersistentRef]?.data?.hexadecimal ?? "", item)
        }
    }

    /// Returns every prefix that has items. Throws if an item of any prefix is locked.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func prefixes() throws(LockboxError) -> Set<String> {
        let services = try all(query, withValue: false).compactMap { $0[KeychainName.attrService]?.text }
        return Set(services.filter { !$0.isEmpty && !ItemKey.isReserved(prefix: $0) })
    }
}

/// Changes of more than one item. The Keychain has no transactions.
extension KeychainBackend {
    /// Moves an item to another key, in one step unless it replaces an item: the Keychain cannot rename one over
    /// another.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        for round in 0..<Self.maximumRounds where key != newKey {
            Self.pause(after: round)
            guard try read(newKey) == nil, policy != .updateOnly else { break }
            guard let old = try read(key), !old.item.attributes.isExpired(at: now) else {
                throw LockboxError.itemNotFound(key: key.key)
            }
            let item = old.item.renamed(to: newKey)
            let attributes = query(newKey).filter {
                $0.key == KeychainName.attrService || $0.key == KeychainName.attrAccount
            }
            .merging(try self.attributes(of: item)) { $1 }
            switch calls.update(query(key, old.metadata), attributes) {
            case KeychainStatus.success: return
            case KeychainStatus.itemNotFound: continue
            case KeychainStatus.duplicateItem: try checkForForeignItem(newKey)
            case let status: throw LockboxError(status, "SecItemUpdate", item.attributes.accessibility)
            }
        }
        try moveInTwoSteps(key, to: newKey, policy: policy, now: now)
    }

    /// Performs one operation after the other. The Keychain has no transactions: what would be refused is looked for before
    /// anything is changed. Changes by another program, and a user who declines, can still cause a refusal in the
    /// middle.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        var classes: Set<Accessibility> = []
        for operation in operations {
            switch operation {
            case .write(let changes, let key):
                let old = try item(for: key, now: changes.expiryTime)
                let new = try changes.item(after: old, for: key)
                _ = try attributes(of: new)
                if old == nil { try checkForForeignItem(key) }
                classes.insert(new.attributes.accessibility)
            case .removeReadable(let key, let now): _ = try item(for: key, now: now)
            case .remove: break
            }
        }
        if operations.count > 1 { try classes.forEach(checkIsOpen) }
        for operation in operations {
            switch operation {
            case .write(let changes, let key): try write(changes, to: key)
            case .remove(let key): try remove(key)
            case .removeReadable(let key, let now): try update(key, now: now) { _ in nil }
            }
        }
    }

    /// A class may be locked, or need a passcode that the device does not have. Only a new item tells.
    private func checkIsOpen(_ accessibility: Accessibility) throws {
        let now = Date()
        let probe = try StoredItem(
            key: ItemKey(
                storedPrefix: Self.probePrefix,
                key: String(UInt64.random(in: .min ... .max), radix: 16)
            ),
            value: ArchivedValue(data: Data(), format: .data),
            accessibility: accessibility,
            modified: now,
            // If the process is killed here, the next transfer removes it.
            expires: now + 86_400
        )
        try write(probe, policy: .addOnly)
        try remove(probe.key)
    }
}
