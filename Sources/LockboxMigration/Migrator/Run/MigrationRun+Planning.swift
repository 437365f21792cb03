import LockboxCore
import LockboxPlatform

/// Reads everything, and decides what is to be done.
extension MigrationRun {
    /// What is known of an item before it is read.
    private enum Known {
        /// No run has done it.
        case open
        /// An earlier run has done it, and the source has it again.
        case back
        /// An earlier run has done it, and the source cannot say whether it has it again.
        case unknown(any Error)
    }

    /// Returns what a run would do.
    func preview(except done: Set<String>, _ identity: StoreIdentity?) throws -> [(
        key: String, step: MigrationStep
    )] {
        if isFinished(done), !looksAgain { return [] }
        return try steps(except: done, open(except: done), identity)
    }

    private func isFinished(_ done: Set<String>) -> Bool {
        migration.items.allSatisfy { done.contains($0.key) }
    }

    /// Whether an old item that is done is looked for. Not if it is to stay, so that finding it means nothing.
    private var looksAgain: Bool { !migration.keepsOldItems && migration.source.removesItems }

    /// Leaves out what an earlier run has done, unless the source has it again.
    func steps(
        except done: Set<String>,
        _ source: any SourceItems,
        _ identity: StoreIdentity?,
        _ claim: MigrationClaim? = nil
    ) throws -> [(key: String, step: MigrationStep)] {
        var remaining: [(item: Migration.Item, known: Known)] = []
        for item in migration.items {
            try claim?.renew()
            if let known = known(item, done, source) { remaining.append((item, known)) }
        }
        if remaining.isEmpty { return [] }
        let state = try lockbox.backend.knownLockState()
        return try remaining.compactMap { item, known in
            try claim?.renew()
            return try step(item, known, source, identity, state).map { (item.key, $0) }
        }
    }

    /// Opens the source. If there is nothing left to do, the app's start must not fail for what is wrong with it.
    func open(except done: Set<String>) throws -> any SourceItems {
        do { return try migration.source.open(lockbox, now) } catch {
            if isFinished(done) { return UnopenedItems(error: error) }
            throw error
        }
    }

    /// Nil if there is nothing to do. Costs less than to read the item.
    private func known(_ item: Migration.Item, _ done: Set<String>, _ source: any SourceItems) -> Known? {
        guard done.contains(item.key) else { return .open }
        if !looksAgain { return nil }
        do { return try source.holds(item.key) ? .back : nil } catch { return .unknown(error) }
    }

    /// Nil if an earlier run has done it and there is nothing left to do.
    private func step(
        _ item: Migration.Item,
        _ known: Known,
        _ source: any SourceItems,
        _ identity: StoreIdentity?,
        _ state: LockState?
    ) throws -> MigrationStep? {
        if case .unknown(let error) = known {
            let reason = (error as? LockboxError)?.description ?? (error as? SourceError)?.description
            return .none(.refused(.malformed(reason: reason ?? "its source cannot be read")))
        }
        let step = try step(item, source, identity, state)
        switch (known, step) {
        case (.back, .inPlace), (.back, .none(.alreadyMigrated)), (.back, .none(.absent)): return nil
        default: return step
        }
    }

    /// - Parameter identity: Nil in a dry run, which takes an equal item under the same key for the same item.
    private func step(
        _ item: Migration.Item,
        _ source: any SourceItems,
        _ identity: StoreIdentity?,
        _ state: LockState?
    ) throws -> MigrationStep {
        let key = try lockbox.itemKey(item.newKey)
        let existing: StoredItem?
        let found: SourceItem?
        do { existing = try lockbox.backend.item(for: key, now: now) } catch let error as LockboxError
            where error.isOfOneRecord || error.isAbout(key, in: lockbox.backend)
        {
            // A damaged item does not prevent the others from being migrated.
            return .none(.refused(.malformed(reason: error.description)))
        }
        do { found = try source.item(forKey: item.key) } catch let error as SourceError {
            return .none(.refused(MigrationRefusal(error)))
        } catch let error as LockboxError where error.isOfOneRecord || source.isAbout(item.key, error) {
            return .none(.refused(.malformed(reason: error.description)))
        }
        let isNew = existing.map { $0.value.format != .lockbox2 } ?? false
        // Elsewhere, the old item may still come.
        let absent: MigrationStep =
            !isNew ? .none(.absent) : migration.source.isStore ? .inPlace : .none(.alreadyMigrated)
        guard let old = found else { return absent }
        do {
            if let stored = old.new {
                let isInPlace =
                    try existing?.key == stored.key && isSameStore(source, identity, existing == stored)
                return try isInPlace ? .inPlace : move(old, stored, item, key, existing, state)
            }
            let value = try item.decode(old.value)
            if let existing, existing != old.stored {
                guard value.equals(existing.value, of: lockbox) else {
                    return .none(.refused(.destinationExists))
                }
                return .move(old: old, new: existing, isWritten: true)
            }
            let new = try newItem(item, key, value, old.attributes)
            try state?.check(new.attributes.accessibility)
            if let stored = old.stored, existing != nil {
                let isInPlace = try isSameStore(source, identity, true)
                if migration.keepsOldItems, isInPlace { return .none(.refused(.destinationExists)) }
                return .replace(old: stored, new: new, source: isInPlace ? nil : old)
            }
            return try create(new, from: old)
        } catch SourceError.nothing {
            return isNew ? .inPlace : .none(.absent)
        } catch let error as SourceError {
            return .none(.refused(MigrationRefusal(error)))
        } catch let refusal as MigrationRefusal {
            return .none(.refused(refusal))
        } catch let error as LockboxError {
            if case .interactionNotAllowed = error { throw error }
            return .none(.refused(.notStorable(reason: error.description)))
        } catch {
            // A decoder's error may quote the value, so its text is not used.
            return .none(.refused(.wrongType(expected: item.typeName)))
        }
    }

    /// Whether the source is this same store. It may have been opened separately, so that only a test can tell.
    private func isSameStore(_ source: any SourceItems, _ identity: StoreIdentity?, _ guess: Bool) throws
        -> Bool
    {
        try migration.source.isStore || identity?.isStore(of: source) ?? guess
    }

    /// Moves an item that already has a new format, with all its attributes.
    private func move(
        _ old: SourceItem,
        _ stored: StoredItem,
        _ item: Migration.Item,
        _ key: ItemKey,
        _ existing: StoredItem?,
        _ state: LockState?
    ) throws -> MigrationStep {
        let attributes = stored.attributes
        let new = try StoredItem(
            key: key,
            value: stored.value,
            accessibility: item.accessibility ?? attributes.accessibility,
            created: attributes.created,
            modified: attributes.modified,
            expires: attributes.expires,
            label: attributes.label,
            comment: attributes.comment,
            searchable: attributes.searchable
        )
        guard existing == nil || existing == new else { return .none(.refused(.destinationExists)) }
        // An earlier run has written it. A dry run, which cannot tell whether it is the old item itself, says the same.
        if existing != nil {
            return migration.keepsOldItems ? .inPlace : .move(old: old, new: new, isWritten: true)
        }
        try state?.check(new.attributes.accessibility)
        return try create(new, from: old)
    }

    private func create(_ new: StoredItem, from old: SourceItem) throws -> MigrationStep {
        try (lockbox.backend as? any CrowdedBackend)?.checkForForeignItem(new.key)
        return .move(old: old, new: new, isWritten: false)
    }

    private func newItem(
        _ item: Migration.Item,
        _ key: ItemKey,
        _ value: any MigratedValue,
        _ old: ItemAttributes?
    ) throws -> StoredItem {
        try StoredItem(
            key: key,
            value: value.archived(by: lockbox, key: item.newKey),
            accessibility: item.accessibility ?? old?.accessibility ?? .whenUnlocked,
            created: old?.created,
            modified: now,
            expires: old?.expires,
            label: old?.label,
            comment: old?.comment,
            searchable: old?.searchable ?? [:]
        )
    }
}

extension LockboxError {
    /// Whether it is of a kind that only one record can have, whichever backend it is from.
    fileprivate var isOfOneRecord: Bool {
        switch self {
        case .corrupt, .authenticationFailed, .unsupportedVersion: true
        default: false
        }
    }
}
