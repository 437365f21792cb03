public import LockboxCore
public import LockboxPlatform

/// Changes of more than one item. The Keychain has no transactions.
extension KeychainBackend {
    /// Moves an item to another key, in one step unless it replaces an item: the Keychain cannot rename one over
    /// another.
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
    /// anything is changed. What another program changes meanwhile can still be refused in the middle.
    public func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        for case .write(let changes, let key, let policy) in operations {
            let old = try item(for: key, now: changes.modified)
            _ = try attributes(of: changes.item(after: old, for: key, policy: policy))
        }
        for operation in operations {
            switch operation {
            case .write(let changes, let key, let policy): try write(changes, to: key, policy: policy)
            case .remove(let key): try remove(key)
            }
        }
    }
}
