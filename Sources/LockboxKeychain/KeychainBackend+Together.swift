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
    /// anything is changed. What another program changes meanwhile, and what the user declines, can still be refused in the
    /// middle.
    public func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        var classes: Set<Accessibility> = []
        for operation in operations {
            switch operation {
            case .write(let changes, let key, let policy):
                let old = try item(for: key, now: changes.expiryTime)
                let new = try changes.item(after: old, for: key, policy: policy)
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
            case .write(let changes, let key, let policy): try write(changes, to: key, policy: policy)
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
                storedPrefix: ItemKey.probePrefix,
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

extension KeychainBackend: CrowdedBackend {}
