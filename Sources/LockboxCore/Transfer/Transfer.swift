import LockboxPlatform

/// A copy or move of items from one backend to another.
struct Transfer {
    let source: any LockboxBackend
    let destination: any LockboxBackend
    let policy: ImportPolicy

    /// Expired items are transferred too: dropping them is up to the caller.
    private let now: Date? = nil
    /// In the destination, an expired item counts as absent.
    private let today = Date()

    func run(_ prefix: String?, removing: Bool, _ progress: (StoreProgress) -> Void) throws -> TransferReport
    {
        let keys = try (prefix.map { [$0] } ?? source.prefixes().sorted()).flatMap { prefix in
            try source.attributes(prefix: prefix, now: now).keys.sorted { $0.key < $1.key }
        }
        if removing { try checkIsAnotherStore() }
        if policy == .fail { try keys.forEach(checkIsFree) }
        var report = TransferReport()
        for (index, key) in keys.enumerated() {
            do { try transfer(key, removing, &report) } catch { report.failed[key] = error }
            progress(StoreProgress(completed: index + 1, total: keys.count))
        }
        return report
    }

    /// A store that is moved into itself would end up empty.
    private func checkIsAnotherStore() throws {
        // A random key, because another process may run the same check at the same time.
        let name = String(UInt64.random(in: .min ... .max), radix: 16)
        let key = try ItemKey(storedPrefix: "\0transfer", key: name)
        let value = try ArchivedValue(
            data: Data((0..<16).map { _ in UInt8.random(in: .min ... .max) }),
            format: .data
        )
        let probe = try StoredItem(
            key: key,
            value: value,
            accessibility: .alwaysThisDeviceOnly,
            modified: today,
            // If the process is killed, the next transfer removes the probe. By then no check can still be
            // looking for it.
            expires: today + 86_400
        )
        try destination.removeExpired(prefix: key.prefix, now: today)
        try destination.write(probe, policy: .replace)
        let isSame = Result { try source.value(for: key, now: now) == value }
        try destination.remove(key)
        if try isSame.get() { throw LockboxError.invalidKey(reason: "a store cannot be moved into itself") }
    }

    private func checkIsFree(_ key: ItemKey) throws {
        guard let old = try destination.item(for: key, now: today) else { return }
        if try source.item(for: key, now: now) != old { throw LockboxError.duplicateItem(key: key.key) }
    }

    private func transfer(_ key: ItemKey, _ removing: Bool, _ report: inout TransferReport) throws {
        // Nil if the item was removed after it was listed.
        guard let item = try source.item(for: key, now: now) else { return }
        guard try destination.item(for: key, now: now) == item || put(item) else {
            report.kept.append(key)
            return
        }
        guard try destination.item(for: key, now: now) == item else {
            throw LockboxError.corrupt(
                record: "the item for the key \(String(reflecting: key.key))",
                reason: "the other backend returned it changed"
            )
        }
        if removing {
            try source.update(key, now: now) { current in
                if let current, current != item {
                    throw LockboxError.corrupt(
                        record: "the item for the key \(String(reflecting: key.key))",
                        reason: "it was changed during the move and is now in both backends"
                    )
                }
                return nil
            }
        }
        report.transferred.append(key)
    }

    /// Returns false if the destination has a different item, which the policy keeps.
    private func put(_ item: StoredItem) throws -> Bool {
        var isPut = false
        try destination.update(item.key, now: today) { old in
            if old != nil, policy == .fail { throw LockboxError.duplicateItem(key: item.key.key) }
            isPut = old == nil || policy == .replace
            return isPut ? item : old
        }
        return isPut
    }
}
