import LockboxAge
public import LockboxCore
import LockboxPlatform

extension SealedBackend {
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
    ///   - path: The backup file. `-` is standard input.
    ///   - secret: Decrypts it. An attacker who knows a public key can make a backup for it: know where the file comes from.
    ///   - existing: How to treat a different, unexpired item under the same key in the store. With
    ///     ``ExistingItemPolicy/fail``, a damaged item counts as existing, and so does one that cannot be read. No class is
    ///     lowered: an item that is replaced, also a damaged or expired one, keeps a class that is better protected than the
    ///     backup's, and stays on this device if it was to.
    ///   - isDryRun: Whether only to report what would be imported.
    ///   - isTrusted: Whether you vouch that the backup is yours: classes that were chosen in the store that it is of then count
    ///     as chosen in this one. Otherwise none does, and the next write of an item has to name its class, unless that is
    ///     ``Accessibility/whenUnlocked``.
    ///   - progress: Called after each batch of items.
    /// - Returns: The items that were written, those that were kept, and those that could not be replaced.
    /// - Throws: ``LockboxError/notABackup(path:)``, ``LockboxError/wrongPasscode``,
    ///   ``LockboxError/invalidPasscode(reason:)``, ``LockboxError/notEnoughMemory(bytes:)``,
    ///   ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)``,
    ///   ``LockboxError/requirementNotMet(record:reason:)`` if this program requires a better protected class,
    ///   ``LockboxError/interactionNotAllowed(_:)``, also for an item of the store that is locked, or
    ///   ``LockboxError/duplicateItem(key:)``. Nothing has then changed, unless the file was changed meanwhile.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func importBackup(
        from path: String,
        with secret: BackupSecret,
        existing: ExistingItemPolicy = .keep,
        isDryRun: Bool = false,
        isTrusted: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ImportReport {
        var reader = try BackupReader(path, secret.identities(), SystemCalls())
        var state = Import(policy: existing)
        let keyring = try keyStore.keyring(creating: false).map { _ in try keyStore.currentKeyring() }
        var found: Set<ItemKey> = []
        try reader.read { item in
            // Which of two would win would depend on their places in the file.
            guard found.insert(item.key).inserted else {
                throw BackupError.damaged("\(ItemKey.location(ofKey: item.key.key)) is in it twice")
            }
            // Under every policy, so that what cannot be written is found before anything is.
            try check(item, keyring, &state)
        }
        let total = found.count
        var completed = 0
        var batch: [StoredItem] = []
        func importBatch() throws {
            if isDryRun { try preview(batch, &state) } else { try importItems(batch, &state) }
            completed += batch.count
            batch = []
            progress(StoreProgress(completed: completed, total: total))
        }
        try reader.read { item in
            batch.append(isTrusted ? item : item.with(ClassOrigin(.missing)))
            if batch.count == ItemOperation.batch || item.value.data.count > Self.largeValue {
                try importBatch()
            }
        }
        if !batch.isEmpty { try importBatch() }
        // The writer of these items may have been killed before they were durable.
        if !isDryRun {
            for namespace in state.unchanged.sorted() { try storage.asFiles?.synchronize(namespace) }
        }
        return state.report
    }

    /// An import that has begun.
    private struct Import {
        let policy: ExistingItemPolicy
        let today = world.date
        var report = ImportReport()
        /// The namespaces of the items that the store had already.
        var unchanged: Set<String> = []
        /// Something in the place of an item that cannot be read, and the class of what is to replace it.
        var unreadable: [RecordName: Accessibility] = [:]
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
        /// Bytes that no program can read any more.
        case damaged
        /// Something that this program cannot read, and that may be whole.
        case unreadable(LockboxError)
    }

    /// - Throws: ``LockboxError`` if the item must not be written, or is locked, or if there must not be one.
    private func check(_ item: StoredItem, _ keyring: Keyring?, _ state: inout Import) throws {
        guard let keyring else {
            return try reader.checkIsAllowed(item.attributes.accessibility, for: item.key, in: nil)
        }
        let record = reader.itemRecord(of: item.key, keyring)
        let place = try place(record, keyring, of: item, state)
        switch (place.state, state.policy) {
        case (.other, .fail), (.damaged, .fail): throw LockboxError.duplicateItem(key: item.key.key)
        case (.unreadable(let error), .fail): throw error
        case (.unreadable, _): state.unreadable[record.name] = place.item.attributes.accessibility
        default: break
        }
        let accessibility = place.item.attributes.accessibility
        if !keyring.isOpen(accessibility) { throw LockboxError.interactionNotAllowed(accessibility) }
        try reader.checkIsAllowed(accessibility, for: item.key, in: nil)
        // The storage's limit is less than the format's: only a trial tells whether it fits.
        if item.value.data.count > maximumValueSize {
            _ = try writer.seal(place.item, into: record, with: keyring)
        }
    }

    /// The place of a backup's item in the store.
    private struct Place {
        let state: InStore
        let looked: Looked<ExistingItem>
        /// The item to write. An attacker who knows a public key can make a backup, so it lowers no class.
        let item: StoredItem
    }

    private func place(_ record: ItemRecord, _ keyring: Keyring, of new: StoredItem, _ state: Import) throws
        -> Place
    {
        do { return try readablePlace(record, keyring, of: new, state) } catch let error as LockboxError
            where error.isOfOneRecord
        {
            let item = try new.raised(to: classInHeader(of: record.name))
            return Place(
                state: .unreadable(error),
                looked: Looked(record, .absent, ExistingItem()),
                item: item
            )
        }
    }

    private func readablePlace(_ record: ItemRecord, _ keyring: Keyring, of new: StoredItem, _ state: Import)
        throws -> Place
    {
        let old = try reader.existingItem(record, keyring, at: nil)
        // If it was set aside, and not written since, its class was found before.
        let aside = state.unreadable[record.name]
        let header = old.content.damage.flatMap { _ in
            classInHeader(of: record.name)
        }
        let item = try new.raised(to: old.content.attributes?.accessibility ?? header ?? aside)
        if old.content.damage != nil { return Place(state: .damaged, looked: old, item: item) }
        guard let attributes = old.content.attributes else {
            return Place(state: .absent, looked: old, item: item)
        }
        let isAbsent = attributes.isExpired(at: state.today)
        if !keyring.isOpen(attributes.accessibility) {
            throw LockboxError.interactionNotAllowed(attributes.accessibility)
        }
        do {
            // The value too: it can be damaged where the attributes are not. The class is that of the first look, so its revision
            // counts: what was written since must not lose its class.
            let found = try reader.openItem(record, keyring, at: nil).content
            let state = found == item ? InStore.same : found == nil || isAbsent ? .absent : .other
            return Place(state: state, looked: old, item: item)
        } catch let error as LockboxError where error.code == .corrupt || error.code == .authenticationFailed
        {
            return Place(state: isAbsent ? .absent : .damaged, looked: old, item: item)
        }
    }

    /// The class that an item names whose record the storage refuses to read. It is not authentic, and only raises another.
    private func classInHeader(of record: RecordName) -> Accessibility? {
        var bytes = storage.asFiles?.unsafeBeginning(of: record, count: ItemHeader.length) ?? []
        return bytes.withUnsafeMutableBytes { ItemHeader.beginning(of: $0)?.accessibility }
    }

    /// Makes room for the backup's item. The bytes are kept, because they may be whole.
    private func setAside(_ record: ItemRecord, _ keyring: Keyring, for item: StoredItem, _ state: Import)
        throws
    {
        guard case .unreadable(let error) = try place(record, keyring, of: item, state).state,
            error.isInTheWay
        else { return }
        do {
            let lock = try storage.lockIfSupported([record.name.namespace])
            defer { lock?.release() }
            _ = try lock.quarantine(record.name)
        } catch is LockboxError {
            // It is in the way still, and will be named.
        }
    }

    /// The outcome for an item of the backup.
    private enum Imported {
        case added, replaced, unchanged, kept
        case failed(LockboxError)
    }

    private func outcome(_ item: StoredItem, _ record: ItemRecord, in found: InStore, _ state: Import) throws
        -> Imported
    {
        switch (found, state.policy) {
        case (.same, _): .unchanged
        case (.other, .keep): .kept
        case (.unreadable(let error), _): .failed(error)
        case (.other, .fail), (.damaged, .fail): throw LockboxError.duplicateItem(key: item.key.key)
        case (.absent, _): state.unreadable[record.name] == nil ? .added : .replaced
        case (.other, .replace), (.damaged, _): .replaced
        }
    }

    private func note(
        _ imported: Imported,
        of item: StoredItem,
        _ record: ItemRecord,
        _ state: inout Import
    ) throws {
        switch imported {
        case .added: state.report.addedKeys.append(item.key)
        case .replaced: state.report.replacedKeys.append(item.key)
        case .unchanged:
            state.report.unchangedCount += 1
            if let namespace = record.name.namespace { state.unchanged.insert(namespace) }
        case .kept: state.report.keptKeys.append(item.key)
        case .failed(let error):
            state.report.findings.append(
                try reader.unreadableItem(record, key: item.key, error: error).finding
            )
        }
    }

    private func preview(_ items: [StoredItem], _ state: inout Import) throws {
        let keyring = try keyStore.keyring(creating: false)
        for item in items {
            guard let keyring else {
                state.report.addedKeys.append(item.key)
                continue
            }
            let record = reader.itemRecord(of: item.key, keyring)
            let found = try place(record, keyring, of: item, state).state
            var imported = try outcome(item, record, in: found, state)
            // It would be set aside.
            if case .failed(let error) = imported, error.isInTheWay { imported = .replaced }
            try note(imported, of: item, record, &state)
        }
    }

    private func importItems(_ items: [StoredItem], _ state: inout Import) throws {
        guard let keyring = try keyStore.keyring(creating: true) else { return }
        let records = items.map { reader.itemRecord(of: $0.key, keyring) }
        guard Set(records.map(\.name)).count == items.count else {
            // A commit changes a record once.
            return try items.forEach { try importItems([$0], &state) }
        }
        let begun = state
        for (record, item) in zip(records, items) where begun.unreadable[record.name] != nil {
            try setAside(record, keyring, for: item, begun)
        }
        var imported: [RecordName: Imported] = [:]
        let edits = zip(records, items).map { record, item in
            ItemEdit(record: record) { [self] record, keyring in
                let place = try place(record, keyring, of: item, begun)
                let outcome = try outcome(item, record, in: place.state, begun)
                imported[record.name] = outcome
                switch outcome {
                case .added, .replaced: return Decision(storing: place.item, inPlaceOf: place.looked)
                case .unchanged, .kept, .failed: return Decision(keeping: place.looked)
                }
            }
        }
        try writer.commit(edits, with: keyring)
        for (record, item) in zip(records, items) {
            if let imported = imported[record.name] { try note(imported, of: item, record, &state) }
        }
    }
}

extension LockboxError {
    /// Whether it is not about what is in an item's file, but about the file, which can be set aside.
    fileprivate var isInTheWay: Bool { [.unsafePermissions, .unreadable].contains(code) }
}

extension StoredItem {
    /// Returns the item in a class that is as well protected as another one, too.
    fileprivate func raised(to other: Accessibility?) throws -> StoredItem {
        let accessibility = attributes.accessibility.raised(to: other)
        if accessibility == attributes.accessibility { return self }
        let changes = ItemChanges(
            options: WriteOptions(accessibility: accessibility),
            modified: attributes.modified
        )
        // The backup's owner has not chosen this class.
        return try changes.item(after: self, for: key).with(ClassOrigin(.missing))
    }
}

/// The secret that decrypts a backup.
public enum BackupSecret: Sendable {
    /// The passphrase that it was written with, if a guess costs at most so much: the cost is read from the file, which cannot be
    /// authenticated before. See ``BackupRecipients/passphrase(_:workFactor:)``.
    case passphrase(PasscodeSource, maximumWorkFactor: Int = 22)

    /// Private keys of age, one in each line, as `age-keygen` writes them: empty lines and lines that begin with `#` do not count.
    /// At most 64 KiB.
    case privateKeys(PasscodeSource)

    func identities() throws -> [AgeIdentity] {
        switch self {
        case .passphrase(let passphrase, let maximum):
            return try passphrase.withBytes { [.passphrase(WipedBytes($0), maximumWorkFactor: maximum)] }
        case .privateKeys(let keys):
            let found = try keys.withBytes(atMost: 64 << 10) { bytes in
                let lines = String(decoding: bytes, as: UTF8.self)
                    .split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
                return try lines.enumerated().filter { !$1.isEmpty && !$1.hasPrefix("#") }.map {
                    number,
                    line in
                    do { return AgeIdentity.x25519(try AgePrivateKey(line)) } catch {
                        throw LockboxError.invalidPasscode(
                            reason:
                                "line \(number + 1) is no private key of age, which begins with AGE-SECRET-KEY-1"
                        )
                    }
                }
            }
            if found.isEmpty {
                throw LockboxError.invalidPasscode(reason: "there is no private key of age in it")
            }
            return found
        }
    }
}

/// The result of ``SealedBackend``'s `importBackup`.
public struct ImportReport: StoreReport, Hashable, Codable {
    /// The items that the store did not have.
    public var addedKeys: [ItemKey] = []

    /// The items that have replaced others: different ones with ``ExistingItemPolicy/replace``, and damaged ones.
    public var replacedKeys: [ItemKey] = []

    /// The number of items written.
    public var importedCount: Int { addedKeys.count + replacedKeys.count }

    /// The number of items that were already identical in the store.
    public var unchangedCount = 0

    /// The items that were not imported, because the store keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``).
    public var keptKeys: [ItemKey] = []

    /// The items that were not imported, because the existing item can be neither read nor replaced.
    public var findings: [StoreFinding] = []
}
