public import LockboxPlatform

extension LockboxBackend {
    /// Checks that the store can be used: writes, reads and removes an item under a reserved prefix, which no
    /// list shows.
    ///
    /// - Parameters:
    ///   - accessibility: The class of the item.
    ///   - now: The current time. If the process is killed during the check, its item expires a day later.
    /// - Throws: The reason why the store cannot be used.
    public func checkAccess(_ accessibility: Accessibility, now: Date) throws {
        try withProbe(accessibility, now: now) { probe in
            guard try value(for: probe.key, now: now) == probe.value else {
                throw LockboxError.corrupt(record: "the store", reason: "reading back returned another value")
            }
        }
    }

    /// Stores an item with a random name under a reserved prefix, calls `body` with it, and removes it.
    package func withProbe<Result>(
        _ accessibility: Accessibility,
        now: Date,
        _ body: (StoredItem) throws -> Result
    ) throws -> Result {
        // A random key, because another process may run the same check at the same time.
        let name = String(UInt64.random(in: .min ... .max), radix: 16)
        let data = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) })
        let probe = try StoredItem(
            key: ItemKey(storedPrefix: ItemKey.probePrefix, key: name),
            value: ArchivedValue(data: data, format: .data),
            accessibility: accessibility,
            modified: now,
            // If the process is killed, the next check removes the probe. By then no check can still be looking
            // for it.
            expires: now + 86_400
        )
        try removeExpired(prefix: probe.key.prefix, now: now)
        try write(probe, policy: .replace)
        let result = Swift.Result { try body(probe) }
        try remove(probe.key)
        return try result.get()
    }

    /// The error for an item that was written and reads back as another, or as absent.
    ///
    /// Another writer may have changed it since, or the backend may not keep what it is given. No other writer knows the
    /// key of a probe, so a probe tells which.
    package func errorOfReadingBack(_ item: StoredItem, now: Date) -> LockboxError {
        let record = item.key.location
        let keeps = try? withProbe(item.attributes.accessibility, now: now) { try keepsWritesAndUpdates($0) }
        if keeps == true { return .conflict(record: record) }
        return .corrupt(record: record, reason: "reading it back returned another item")
    }

    private func keepsWritesAndUpdates(_ probe: StoredItem) throws -> Bool {
        guard try item(for: probe.key, now: nil) == probe else { return false }
        let next = try StoredItem(
            key: probe.key,
            value: ArchivedValue(data: Data(probe.value.data.reversed()), format: .data),
            accessibility: probe.attributes.accessibility,
            modified: probe.attributes.modified,
            expires: probe.attributes.expires
        )
        try update(probe.key, now: nil) { _ in next }
        return try item(for: probe.key, now: nil) == next
    }
}

extension ItemKey {
    /// No app can use it, and no list shows its items.
    package static let probePrefix = "\0transfer"
}
