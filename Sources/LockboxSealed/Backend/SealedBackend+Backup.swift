public import LockboxCore
import LockboxFiles
import LockboxPlatform

extension SealedBackend {
    /// Writes every item that may leave this device into one file, sealed with a passphrase, and with nothing else of this
    /// store: it can be read into any other.
    ///
    /// Items of the `ThisDeviceOnly` classes and of `whenPasscodeSetThisDeviceOnly` are left out, and named in the
    /// report. Expired items are in. The file (0600) is there when it is whole, in place of an earlier backup of that name.
    ///
    /// - Parameters:
    ///   - path: The file to write. An earlier backup or an empty file may be there, and nothing else.
    ///   - passphrase: What the backup is opened with, 1 to 1,024 bytes. Who has the file can guess at it for ever.
    ///   - prefix: Only this prefix's items; nil, all.
    ///   - strength: What each guess at the passphrase costs.
    ///   - progress: Is called after each item.
    /// - Returns: How many items are in the backup, and which are not.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item is locked; the item's error if one cannot be read;
    ///   ``LockboxError/notABackup(path:)`` if another file is at that path; ``LockboxError/unsafePermissions(path:reason:)``
    ///   if it is no file, or a backup, and there is no item for the new one. Then nothing was written.
    @discardableResult
    public func exportBackup(
        to path: String,
        passphrase: PasscodeSource,
        prefix: String? = nil,
        strength: PasscodeStrength = .moderate,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ExportReport {
        try exportBackup(to: path, passphrase, prefix, strength, SystemCalls(), progress)
    }

    func exportBackup(
        to path: String,
        _ passphrase: PasscodeSource,
        _ prefix: String?,
        _ strength: PasscodeStrength,
        _ calls: SystemCalls,
        _ progress: (StoreProgress) -> Void
    ) throws -> ExportReport {
        let isReplacing = try BackupRecord.isReplaceable(path, calls)
        let (block, key) = try passphrase.withBytes { try PasscodeBlock.make($0, strength: strength) }
        let header = BackupRecord.header(block)
        var writer = try AtomicFile(path, calls)
        try writer.write(header)
        var report = ExportReport()
        let namespaces = try keys.keyring(creating: false).map { try items($0, prefix: prefix) } ?? []
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (number, record) in namespaces.joined().enumerated() {
            try export(record, &report) { item, index in
                try writer.write(BackupRecord.seal(.item(item), index: index, header: header, key: key))
            }
            progress(StoreProgress(completed: number + 1, total: total))
        }
        let count = UInt64(report.exported)
        try writer.write(BackupRecord.seal(.end(count: count), index: count, header: header, key: key))
        if isReplacing, count == 0 {
            throw LockboxError.unsafePermissions(
                path: path,
                reason: "it is a backup, and there is nothing to replace it by"
            )
        }
        try writer.finish()
        return report
    }

    private func items(_ keyring: Keyring, prefix: String?) throws -> [ItemRecords] {
        let chosen = prefix.map { keyring.namespace(ofPrefix: $0) }
        let namespaces = try storage.namespaces().filter {
            chosen == nil ? keyring.owns(namespace: $0) : $0 == chosen
        }
        return try namespaces.map { try items(in: $0) }
    }

    private func export(
        _ record: ItemRecord,
        _ report: inout ExportReport,
        _ write: (StoredItem, UInt64) throws -> Void
    ) throws {
        let keyring = try keys.currentKeyring()
        guard let metadata = try metadata(record, keyring) else { return }  // removed meanwhile
        if ItemKey.isReserved(prefix: metadata.key.prefix) { return }
        if metadata.attributes.accessibility.isThisDeviceOnly { return report.leftOut.append(metadata.key) }
        guard let item = try item(for: metadata.key, now: nil) else { return }
        // It may have been moved to another class meanwhile.
        if item.attributes.accessibility.isThisDeviceOnly { return report.leftOut.append(item.key) }
        try write(item, UInt64(report.exported))
        report.exported += 1
    }

    /// Reads a backup into this store. Before anything is written, all of the file has been authenticated, and every class
    /// in it is open.
    ///
    /// An import that was interrupted can be run again, under any policy: items that are there exactly as they are in the
    /// backup do not count as existing, nor do expired ones.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - passphrase: The one that it was written with.
    ///   - existing: What is to be done with items that are there, and are others.
    ///   - progress: Is called after each item.
    /// - Returns: How many items were written, and which were kept.
    /// - Throws: ``LockboxError/notABackup(path:)``, ``LockboxError/wrongPasscode``, ``LockboxError/corrupt(record:reason:)``,
    ///   ``LockboxError/authenticationFailed(record:)``, ``LockboxError/interactionNotAllowed(_:)``,
    ///   ``LockboxError/duplicateItem(key:)``: nothing has changed then.
    @discardableResult
    public func importBackup(
        from path: String,
        passphrase: PasscodeSource,
        existing: ImportPolicy = .keep,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ImportReport {
        let reader = try BackupReader(path, SystemCalls())
        let header = try reader.header()
        let key = try reader.key(header, passphrase)
        let today = Date()
        var total = 0
        let keyring = try keys.keyring(creating: false).map { _ in try keys.currentKeyring() }
        try reader.read(key, header) { item in
            total += 1
            let accessibility = item.attributes.accessibility
            if let keyring, !keyring.isOpen(accessibility) {
                throw LockboxError.interactionNotAllowed(accessibility)
            }
            // Of any policy: what cannot be read is found out before anything is written.
            let old = try inStore(item, today)
            if existing == .fail, old == .other {
                throw LockboxError.duplicateItem(key: item.key.key)
            }
        }
        var report = ImportReport()
        var completed = 0
        try reader.read(key, header) { item in
            try restore(item, existing, today, &report)
            completed += 1
            progress(StoreProgress(completed: completed, total: total))
        }
        return report
    }

    /// What a store has under the key of a backup's item.
    private enum InStore {
        /// Nothing, or an expired item, which is in nobody's way.
        case absent
        case same
        /// Another item, or a damaged one.
        case other
    }

    private func inStore(_ item: StoredItem, _ today: Date) throws -> InStore {
        do {
            guard let old = try self.item(for: item.key, now: nil) else {
                return .absent
            }
            if old == item { return .same }
            return old.attributes.isExpired(at: today) ? .absent : .other
        } catch LockboxError.corrupt, LockboxError.authenticationFailed {
            return .other
        } catch LockboxError.interactionNotAllowed(let accessibility) {
            // Its expiry can be read all the same.
            if try attributes(for: item.key, now: today) == nil { return .absent }
            throw LockboxError.interactionNotAllowed(accessibility)
        }
    }

    private func restore(
        _ item: StoredItem,
        _ policy: ImportPolicy,
        _ today: Date,
        _ report: inout ImportReport
    ) throws {
        switch (try inStore(item, today), policy) {
        case (.same, _): report.unchanged += 1
        case (.other, .keep): report.kept.append(item.key)
        case (.other, .fail): throw LockboxError.duplicateItem(key: item.key.key)
        case (.other, .replace):
            try overwrite(item)
            report.imported += 1
        case (.absent, _):
            if try add(item, now: today) {
                report.imported += 1
            } else {
                // What another process has written since then is there already, too.
                try restore(item, policy, today, &report)
            }
        }
    }
}

extension Accessibility {
    /// Whether items of the class stay out of backups.
    var isThisDeviceOnly: Bool {
        switch self {
        case .whenUnlocked, .afterFirstUnlock, .always: false
        case .whenUnlockedThisDeviceOnly, .afterFirstUnlockThisDeviceOnly, .alwaysThisDeviceOnly,
            .whenPasscodeSetThisDeviceOnly:
            true
        }
    }
}
