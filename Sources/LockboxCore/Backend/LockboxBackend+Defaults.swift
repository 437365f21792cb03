public import LockboxPlatform

/// Default implementations, built on the five required methods.
extension LockboxBackend {
    /// Returns ``ArchivedValue/maximumSize``.
    public var maximumValueSize: Int { ArchivedValue.maximumSize }

    /// Returns `true`.
    public var isOnThisDevice: Bool { true }

    /// Creates an item, or changes the parts of an existing one that the changes set. Calls
    /// ``LockboxBackend/update(_:now:_:)``.
    public func write(_ changes: ItemChanges, to key: ItemKey) throws {
        try update(key, now: changes.expiryTime) { try changes.item(after: $0, for: key) }
    }

    /// Performs one operation after the other.
    public func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        for operation in operations {
            switch operation {
            case .write(let changes, let key): try write(changes, to: key)
            case .remove(let key): try remove(key)
            case .removeReadable(let key, let now): try update(key, now: now) { _ in nil }
            }
        }
    }

    /// Stores an item with all its attributes. An existing item keeps only its
    /// ``ItemAttributes/created`` date.
    ///
    /// - Parameters:
    ///   - item: The key, value and attributes. ``ItemAttributes/modified`` is the date of the write.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    /// - Throws: Any error of ``LockboxBackend/write(_:to:)``.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func write(_ item: StoredItem, policy: WritePolicy) throws {
        try write(ItemChanges(item, policy: policy), to: item.key)
    }

    /// Reads a whole item, and returns its value, or `nil` if it is absent.
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try item(for: key, now: now)?.value
    }

    /// Reads the values of several items, one at a time.
    public func values(for keys: [ItemKey], now: Date?) throws -> [ItemKey: ArchivedValue] {
        var values: [ItemKey: ArchivedValue] = [:]
        for key in keys { values[key] = try value(for: key, now: now) }
        return values
    }

    /// Reads a whole item, and returns its attributes, or `nil` if it is absent.
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try item(for: key, now: now)?.attributes
    }

    /// Calls a closure with the attributes of every item with a prefix. Loads all attributes into memory first.
    public func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        for (key, attributes) in try attributes(prefix: prefix, now: now) { try body(key, attributes) }
    }

    /// Calls ``LockboxBackend/prefixes()``.
    public func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String> { try prefixes() }

    /// Removes every item with a prefix, one at a time.
    public func removeAll(prefix: String) throws {
        var keys = Set(try attributes(prefix: prefix, now: nil).keys)
        while !keys.isEmpty {
            try keys.forEach(remove)
            // Another writer may have moved one to another key.
            keys = Set(try attributes(prefix: prefix, now: nil).keys).subtracting(keys)
        }
    }

    /// Removes the expired items with a prefix, and returns their number. Items that cannot be read stay, because their
    /// expiry is not known.
    ///
    /// - Parameters:
    ///   - prefix: The key prefix.
    ///   - now: The current time.
    /// - Throws: ``LockboxError`` if some items could not be removed.
    @discardableResult
    package func removeExpired(prefix: String, now: Date) throws -> Int {
        try removeExpired(prefix: prefix, now: now, unreadable: { _ in })
    }

    /// Removes the expired items with a prefix, one at a time, and returns their number.
    @discardableResult
    public func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        var expired: [ItemKey] = []
        try forEachItem(prefix: prefix, now: nil, unreadable: unreadable) {
            if $1.isExpired(at: now) { expired.append($0) }
        }
        var count = 0
        for key in expired {
            var isRemoved = false
            try update(key, now: nil) { item in
                // The item may have been replaced since it was listed.
                isRemoved = item?.attributes.isExpired(at: now) ?? false
                return isRemoved ? nil : item
            }
            if isRemoved { count += 1 }
        }
        return count
    }

    /// Moves an item to another accessibility class.
    ///
    /// - Parameters:
    ///   - accessibility: The new class.
    ///   - key: The item's key.
    ///   - now: The current time, which becomes ``ItemAttributes/modified``. An item that has expired by then
    ///     counts as absent.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if the item is absent, or any error of
    ///   ``write(_:to:)``.
    package func setAccessibility(_ accessibility: Accessibility, for key: ItemKey, now: Date) throws {
        let options = WriteOptions(accessibility: accessibility, policy: .updateOnly)
        try write(ItemChanges(options: options, modified: now), to: key)
    }
}

/// Optional: not every store can do it.
extension LockboxBackend {
    /// Refuses.
    public var lockState: LockState {
        get throws { throw LockboxError.notSupported(operation: "telling which classes are open") }
    }

    /// Returns `nil`.
    public func location(of key: ItemKey) -> String? { nil }

    /// Refuses.
    public func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) throws -> @Sendable () -> Void { throw LockboxError.notSupported(operation: "observing changes") }

    /// Refuses.
    @discardableResult
    public func remove(record: String) throws -> Bool {
        throw LockboxError.notSupported(operation: "removing unreadable items")
    }

    /// Refuses.
    @discardableResult
    public func quarantine(record: String) throws -> String {
        throw LockboxError.notSupported(operation: "quarantine")
    }

    /// Refuses.
    public func synchronize(prefix: String) throws {
        throw LockboxError.notSupported(operation: "synchronizing what others wrote")
    }

    /// Refuses.
    public func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport {
        throw LockboxError.notSupported(operation: "verifying the store")
    }

    /// Does nothing.
    public func checkForForeignItem(_ key: ItemKey) {}
}

extension LockboxError {
    /// Returns the result of a call, or nil if it is not supported.
    package static func ifSupported<Result>(_ body: () throws -> Result) throws -> Result? {
        do { return try body() } catch let error as LockboxError where error.code == .notSupported {
            return nil
        }
    }
}

/// Copies and moves in two steps.
extension LockboxBackend {
    /// Copies an item to another key, and takes the copy back if the item has changed meanwhile.
    public func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        if key == newKey { return _ = try source(key, now) }
        try put(key, under: newKey, in: self, policy: policy, now: now, isMove: false)
    }

    /// Moves an item to another key: copies it, then removes the old one.
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try moveInTwoSteps(key, to: newKey, policy: policy, now: now)
    }

    /// Copies an item to another key, then removes the original: the default implementation of
    /// ``LockboxBackend/move(_:to:policy:now:)``.
    ///
    /// For a backend that can move some items in one step, and others not.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key, with the same prefix or another.
    ///   - policy: Whether to overwrite an item under the new key.
    ///   - now: The current time. An item that has expired by then counts as absent.
    /// - Throws: Any error of ``LockboxBackend/move(_:to:policy:now:)``.
    @_spi(Extensions)
    public func moveInTwoSteps(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        if key == newKey { return _ = try source(key, now) }
        try put(key, under: newKey, in: self, policy: policy, now: now, isMove: true)
    }

    /// Copies an item to another store, or in this one if it is the same.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The key of the copy.
    ///   - other: The store of the copy.
    ///   - policy: Whether to overwrite an item under the new key.
    ///   - now: The current time. An item that has expired by then counts as absent.
    /// - Throws: Any error of ``LockboxBackend/copy(_:to:policy:now:)``.
    @_spi(Extensions)
    public func copy(
        _ key: ItemKey,
        to newKey: ItemKey,
        in other: any LockboxBackend,
        policy: WritePolicy,
        now: Date
    ) throws {
        _ = try source(key, now)
        if try other.isSameStore(as: self, now: now) {
            try copy(key, to: newKey, policy: policy, now: now)
        } else {
            try put(key, under: newKey, in: other, policy: policy, now: now, isMove: false)
        }
    }

    private func put(
        _ key: ItemKey,
        under newKey: ItemKey,
        in target: any LockboxBackend,
        policy: WritePolicy,
        now: Date,
        isMove: Bool
    ) throws {
        for _ in 0..<16 {
            var (item, old): (StoredItem, StoredItem?) = (try source(key, now), nil)
            try target.update(newKey, now: now) { existing in
                // Read anew for each attempt, so that what is written is what is there.
                item = try source(key, now)
                let copy = item.renamed(to: newKey)
                old = existing
                if existing != copy { try policy.check(key: newKey.key, exists: existing != nil) }
                // If two moves have opposite directions, each would take the other's copy for its own, and remove the item.
                if isMove, existing == copy { throw LockboxError.duplicateItem(key: newKey.key) }
                return copy
            }
            let isDone = try isMove ? replace(item, with: nil) : self.item(for: key, now: now) == item
            if isDone { return }
            _ = try target.replace(item.renamed(to: newKey), with: old)
        }
        // Other writers have changed it each time.
        throw LockboxError.conflict(record: key.location)
    }

    private func source(_ key: ItemKey, _ now: Date) throws -> StoredItem {
        guard let item = try item(for: key, now: now) else { throw LockboxError.itemNotFound(key: key.key) }
        return item
    }
}

extension StoredItem {
    /// Returns the same item under another key.
    ///
    /// - Parameter key: The new key.
    public func renamed(to key: ItemKey) -> StoredItem {
        StoredItem(key: key, value: value, checked: attributes)
    }
}

extension LockboxBackend {
    /// Checks that the store can be used: writes, reads and removes an item under a reserved prefix, which no
    /// list shows.
    ///
    /// - Parameters:
    ///   - accessibility: The class of the item.
    ///   - now: The current time. If the process is killed during the check, its item expires a day later.
    /// - Throws: The reason why the store cannot be used.
    package func checkAccess(_ accessibility: Accessibility, now: Date) throws {
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
        let name = String(world.randomNumber, radix: 16)
        let data = Data((0..<16).map { _ in UInt8(truncatingIfNeeded: world.randomNumber) })
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

    /// Whether both give access to the same items. Looks for a probe, as a store can have two paths.
    package func isSameStore(as other: any LockboxBackend, now: Date) throws -> Bool {
        try withProbe(.alwaysThisDeviceOnly, now: now) { probe in
            try other.value(for: probe.key, now: now) == probe.value
        }
    }
}

extension ItemKey {
    /// No app can use it, and no list shows its items.
    package static let probePrefix = "\0transfer"
}

extension LockboxBackend {
    /// Runs calls of this backend on another thread, so that they do not block Swift's cooperative pool. Canceling the task
    /// ends a wait for another writer's lock, and stops nothing else.
    ///
    /// ```swift
    /// let backend = EncryptedFileBackend.default
    /// let report = try await backend.async { try $0.verify() }
    /// ```
    ///
    /// - Parameter body: Calls this backend. It runs on the other thread.
    /// - Returns: The result of `body`.
    /// - Throws: The errors of `body`.
    public func async<Result: Sendable>(_ body: @escaping @Sendable (Self) throws -> Result) async throws
        -> Result
    {
        try await offPool { try body(self) }
    }
}
