public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// Writes all items that may leave this device to a backup file, encrypted with a passphrase.
    ///
    /// The backup can be imported into any store: it contains and needs none of this store's keys.
    ///
    /// Items of the `ThisDeviceOnly` classes and of `whenPasscodeSetThisDeviceOnly` are left out and listed in
    /// the report, and so are items that cannot be read. Expired items are included. The file (mode 0600) appears
    /// only when it is complete, and replaces an earlier backup of that name. An earlier one that has an item which the new one
    /// lacks, or has it newer, stays beside it under another name, and so does one that this passphrase does not open.
    /// Items that have expired do not count.
    ///
    /// - Parameters:
    ///   - path: The file to write. An existing file is replaced only if it is a backup or empty.
    ///   - passphrase: Opens the backup: 1 to 1,024 bytes. Whoever has the file can keep guessing it.
    ///   - prefix: The key prefix whose items are exported. If `nil`, all items are.
    ///   - strength: The cost of each guess at the passphrase.
    ///   - replacing: Whether an earlier backup is replaced whatever it has. It is then not read.
    ///   - progress: Called after each item.
    /// - Returns: The number of exported items, the items that were left out, and those that cannot be read; and where the
    ///   earlier backup is, if it stays.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item is locked;
    ///   ``LockboxError/invalidPasscode(reason:)``; ``LockboxError/notEnoughMemory(bytes:)``;
    ///   ``LockboxError/notABackup(path:)`` if there is another file at the path;
    ///   ``LockboxError/unsafePermissions(path:reason:)`` if there is something at the path that is not a file,
    ///   or a backup that would be replaced by an empty one. Nothing is then written.
    @discardableResult
    public func exportBackup(
        to path: String,
        passphrase: PasscodeSource,
        prefix: String? = nil,
        strength: PasscodeStrength = .moderate,
        replacing: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ExportReport {
        try exportBackup(
            to: path,
            passphrase: passphrase,
            prefix: prefix,
            strength: strength,
            replacing: replacing,
            calls: SystemCalls(),
            progress: progress
        )
    }

    func exportBackup(
        to path: String,
        passphrase: PasscodeSource,
        prefix: String?,
        strength: PasscodeStrength,
        replacing: Bool = false,
        calls: SystemCalls,
        progress: (StoreProgress) -> Void
    ) throws -> ExportReport {
        let isReplacing = try BackupRecord.isReplaceable(path, calls)
        var earlier: EarlierBackup?
        let (block, key) = try passphrase.withBytes { bytes in
            if isReplacing, !replacing { earlier = try EarlierBackup(path, bytes, calls) }
            return try BackupPasscode.make(bytes, strength: strength)
        }
        let header = BackupRecord.header(block)
        var writer = try AtomicFile(path, calls)
        try writer.write(header)
        var report = ExportReport()
        let namespaces =
            try keyStore.keyring(creating: false).map { try itemsToExport($0, prefix, report: &report) } ?? []
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (number, record) in namespaces.joined().enumerated() {
            try exportItem(record, &report) { item, index in
                try writer.write(BackupRecord.seal(.item(item), index: index, header: header, key: key))
                earlier?.isFollowed(by: item)
            }
            progress(StoreProgress(completed: number + 1, total: total))
        }
        let count = UInt64(report.exportedCount)
        try writer.write(BackupRecord.seal(.end(count: count), index: count, header: header, key: key))
        if isReplacing, count == 0 {
            throw LockboxError.unsafePermissions(
                path: path,
                reason:
                    "it is a backup, and the new one would be empty; remove it first, or choose another file"
            )
        }
        report.keptBackup = try earlier?.keepIfNeeded()
        try writer.finish()
        return report
    }

    /// Skips a prefix that cannot be listed, unless it is the only one to be exported.
    private func itemsToExport(_ keyring: Keyring, _ prefix: String?, report: inout ExportReport) throws
        -> [ItemRecords]
    {
        let namespaces = try storage.namespaces()
        if let prefix {
            let chosen = keyring.namespace(ofPrefix: prefix)
            return try namespaces.filter { $0 == chosen }.map { try items(in: $0) }
        }
        return try namespaces.filter(keyring.owns).compactMap { namespace in
            try skippingIfUnusable(namespace, unreadable: { report.findings.append($0.finding) }) {
                try items(in: namespace)
            }
        }
    }

    private func exportItem(
        _ record: ItemRecord,
        _ report: inout ExportReport,
        _ write: (StoredItem, UInt64) throws -> Void
    ) throws {
        let keyring = try keyStore.currentKeyring()
        // Nil if the item was removed meanwhile, or cannot be read.
        let metadata = try readableMetadata(record, keyring) { report.findings.append($0.finding) }
        guard let metadata else { return }
        if ItemKey.isReserved(prefix: metadata.key.prefix) { return }
        if metadata.attributes.accessibility.isThisDeviceOnly {
            return report.excludedKeys.append(metadata.key)
        }
        let found: StoredItem?
        do { found = try item(for: metadata.key, now: nil) } catch let error as LockboxError {
            return report.findings.append(try unreadableItem(record, key: metadata.key, error: error).finding)
        }
        guard let item = found else { return }
        // The item may have been moved to another class meanwhile.
        if item.attributes.accessibility.isThisDeviceOnly { return report.excludedKeys.append(item.key) }
        try write(item, UInt64(report.exportedCount))
        report.exportedCount += 1
    }

    /// Imports a backup into this store.
    ///
    /// Before it writes anything, it authenticates the whole file and checks that every class in it is open. An
    /// interrupted import can be repeated with any policy: items that are identical in the store and the backup
    /// do not count as existing, and neither do expired ones.
    ///
    /// A damaged item of the store is replaced by the backup's. So is one that cannot be read because of its permissions or
    /// because it is a link or a folder, after it has been set aside as by ``LockboxBackend/quarantine(record:)``. Items
    /// of a newer version, sealed with keys newer than the keybag's, or of a class that this program refuses stay, and the
    /// report names them.
    ///
    /// - Parameters:
    ///   - path: The backup file.
    ///   - passphrase: The passphrase that the backup was written with.
    ///   - existing: How to treat a different, unexpired item under the same key in the store. With
    ///     ``ExistingItemPolicy/fail``, a damaged item counts as existing, and so does one that cannot be read, or that
    ///     the backup has twice.
    ///   - maximumStrength: The highest Argon2id cost to accept. The cost is read from the file, which cannot be
    ///     authenticated before Argon2id has run. A higher cost throws ``LockboxError/invalidPasscode(reason:)``.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of items written, the items that were kept, and those that could not be replaced.
    /// - Throws: ``LockboxError/notABackup(path:)``, ``LockboxError/wrongPasscode``,
    ///   ``LockboxError/invalidPasscode(reason:)``, ``LockboxError/notEnoughMemory(bytes:)``,
    ///   ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)``,
    ///   ``LockboxError/interactionNotAllowed(_:)``, also for an item of the store that is locked, or
    ///   ``LockboxError/duplicateItem(key:)``. Nothing has then changed.
    @discardableResult
    public func importBackup(
        from path: String,
        passphrase: PasscodeSource,
        existing: ExistingItemPolicy = .keep,
        maximumStrength: PasscodeStrength = .sensitive,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ImportReport {
        let reader = try BackupReader(path, SystemCalls())
        let header = try reader.header()
        let passcode = try reader.passcode(header, maximum: PasscodeCost(maximumStrength))
        let key = try passphrase.withBytes { try passcode.key($0) }
        var state = Import(policy: existing)
        var total = 0
        let keyring = try keyStore.keyring(creating: false).map { _ in try keyStore.currentKeyring() }
        var found: Set<ItemKey> = []
        try reader.read(key, header) { item in
            total += 1
            // The second one would find the first one in the store, after it has been written.
            if existing == .fail, !found.insert(item.key).inserted {
                throw LockboxError.duplicateItem(key: item.key.key)
            }
            let accessibility = item.attributes.accessibility
            if let keyring, !keyring.isOpen(accessibility) {
                throw LockboxError.interactionNotAllowed(accessibility)
            }
            // Under every policy, so that a locked item is found before anything is written.
            try checkPlace(of: item, &state)
        }
        var completed = 0
        var batch: [StoredItem] = []
        func importBatch() throws {
            try importItems(batch, &state)
            completed += batch.count
            batch = []
            progress(StoreProgress(completed: completed, total: total))
        }
        try reader.read(key, header) { item in
            batch.append(item)
            if batch.count == ItemOperation.batch || item.value.data.count > Self.largeValue {
                try importBatch()
            }
        }
        if !batch.isEmpty { try importBatch() }
        // Whoever wrote these items may have been killed before they were durable.
        try state.unchanged.sorted().forEach(storage.synchronize)
        return state.report
    }

    /// An import that has begun.
    private struct Import {
        let policy: ExistingItemPolicy
        let today = Date()
        var report = ImportReport()
        /// The namespaces of the items that the store had already.
        var unchanged: Set<String> = []
        /// Something in the place of an item that cannot be read.
        var unreadable: Set<RecordName> = []
    }

    /// A value of this length or more ends a batch, so that a batch needs little memory.
    private static var largeValue: Int { 1 << 16 }

    /// The store's item under the key of a backup's item.
    private enum InStore {
        /// No item, or an expired one, which may be overwritten.
        case absent
        case same
        /// A different item.
        case other
        /// Bytes that nobody can read any more.
        case damaged
        /// Something that this program cannot read, and that may be whole.
        case unreadable(LockboxError)
    }

    /// - Throws: ``LockboxError`` if the item is locked, or if there must not be one.
    private func checkPlace(of item: StoredItem, _ state: inout Import) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        let record = itemRecord(of: item.key, keyring)
        switch (try place(record, keyring, of: item, at: state.today).state, state.policy) {
        case (.other, .fail), (.damaged, .fail): throw LockboxError.duplicateItem(key: item.key.key)
        case (.unreadable(let error), .fail): throw error
        case (.unreadable, _): state.unreadable.insert(record.name)
        default: break
        }
    }

    private func place(_ record: ItemRecord, _ keyring: Keyring, of new: StoredItem, at today: Date) throws
        -> (state: InStore, revision: RecordRevision)
    {
        do { return try readablePlace(record, keyring, of: new, at: today) } catch let error as LockboxError
            where error.location == storage.location(of: record.name)
        {
            return (.unreadable(error), .absent)
        }
    }

    private func readablePlace(_ record: ItemRecord, _ keyring: Keyring, of new: StoredItem, at today: Date)
        throws -> (state: InStore, revision: RecordRevision)
    {
        let old = try existingItem(record, keyring, at: nil)
        if old.damage != nil { return (.damaged, old.revision) }
        guard let attributes = old.attributes else { return (.absent, old.revision) }
        let isAbsent = attributes.isExpired(at: today)
        if !keyring.isOpen(attributes.accessibility) {
            if isAbsent { return (.absent, old.revision) }
            throw LockboxError.interactionNotAllowed(attributes.accessibility)
        }
        do {
            // The value too: it can be damaged where the attributes are not.
            let (item, revision) = try openItem(record, keyring, at: nil)
            return (item == new ? .same : item == nil || isAbsent ? .absent : .other, revision)
        } catch let error as LockboxError where error.code == .corrupt || error.code == .authenticationFailed
        {
            return (isAbsent ? .absent : .damaged, old.revision)
        }
    }

    /// Makes room for the backup's item. The bytes are kept, because they may be whole.
    private func setAside(_ record: ItemRecord, _ keyring: Keyring, for item: StoredItem, at today: Date)
        throws
    {
        guard case .unreadable(let error) = try place(record, keyring, of: item, at: today).state,
            // Not about what is in it.
            [.unsafePermissions, .unreadable].contains(error.code)
        else { return }
        do { _ = try storage.quarantine(record.name, lock: nil) } catch is LockboxError {
            // It is in the way still, and will be named.
        }
    }

    /// The outcome for an item of the backup.
    private enum Imported {
        case written, unchanged, kept
        case failed(LockboxError)
    }

    private func importItems(_ items: [StoredItem], _ state: inout Import) throws {
        guard let keyring = try keyStore.keyring(creating: true) else { return }
        let records = items.map { itemRecord(of: $0.key, keyring) }
        let byName = Dictionary(zip(records.map(\.name), items)) { $1 }
        guard byName.count == items.count else {
            // A commit changes a record once.
            return try items.forEach { try importItems([$0], &state) }
        }
        let (policy, today) = (state.policy, state.today)
        for (record, item) in zip(records, items) where state.unreadable.contains(record.name) {
            try setAside(record, keyring, for: item, at: today)
        }
        var imported: [RecordName: Imported] = [:]
        try changeItems(records, with: keyring) { record, keyring in
            guard let item = byName[record.name] else { return .keep }
            let (old, revision) = try place(record, keyring, of: item, at: today)
            switch (old, policy) {
            case (.same, _): imported[record.name] = .unchanged
            case (.other, .keep): imported[record.name] = .kept
            case (.unreadable(let error), _): imported[record.name] = .failed(error)
            case (.other, .fail), (.damaged, .fail): throw LockboxError.duplicateItem(key: item.key.key)
            case (.other, .replace), (.damaged, _), (.absent, _):
                imported[record.name] = .written
                return .replace(revision, with: item)
            }
            return .keep
        }
        for (record, item) in zip(records, items) {
            switch imported[record.name] {
            case .written: state.report.importedCount += 1
            case .unchanged:
                state.report.unchangedCount += 1
                if let namespace = record.name.namespace { state.unchanged.insert(namespace) }
            case .kept: state.report.keptKeys.append(item.key)
            case .failed(let error):
                state.report.findings.append(try unreadableItem(record, key: item.key, error: error).finding)
            case nil: break
            }
        }
    }
}

/// The result of ``SealedBackend``'s `exportBackup`.
public struct ExportReport: StoreReport, Hashable, Codable {
    /// The number of items in the backup.
    public var exportedCount = 0

    /// The items that are not in the backup because their class is a `ThisDeviceOnly` class.
    public var excludedKeys: [ItemKey] = []

    /// The items that cannot be read, and the folders of prefixes that cannot be listed. They are not in the backup.
    public var findings: [StoreFinding] = []

    /// Where the earlier backup of that name is now, if it stays: it has something that the new one lacks, or cannot be read.
    public var keptBackup: String?
}

/// The result of ``SealedBackend``'s `importBackup`.
public struct ImportReport: StoreReport, Hashable, Codable {
    /// The number of items written.
    public var importedCount = 0

    /// The number of items that were already identical in the store.
    public var unchangedCount = 0

    /// The items that were not imported, because the store keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``).
    public var keptKeys: [ItemKey] = []

    /// The items that were not imported, because the existing item can be neither read nor replaced.
    public var findings: [StoreFinding] = []
}
