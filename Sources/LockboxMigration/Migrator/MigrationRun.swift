import LockboxCore
import LockboxFiles
import LockboxPlatform

/// A run of a migration: reads everything, then writes all new items, then removes the old ones.
struct MigrationRun {
    private let migration: Migration
    private let lockbox: Lockbox
    /// The key of the migration's record. Nil if nothing is remembered.
    private let marker: ItemKey?
    private let now: Date

    init(_ migration: Migration, _ lockbox: Lockbox) throws {
        self.migration = migration
        self.lockbox = lockbox
        let isOfThisMachine = !lockbox.backend.isOnThisDevice && !migration.source.isShared
        marker = try migration.name.map {
            try MigrationRecord.key(
                ofMigration: $0,
                prefix: lockbox.keyPrefix,
                machine: isOfThisMachine ? Machine.hash() : nil
            )
        }
        now = lockbox.now()
        try check()
    }

    func perform(_ progress: (StoreProgress) -> Void) throws -> MigrationReport {
        guard let marker else {
            return report(MigrationRecord(), try migrate(except: [], nil, progress), isDryRun: false)
        }
        let record = try self.record(marker)
        if isDone(record) { return report(record, [:], isDryRun: false) }
        let preview = try outcomes(except: record, StoreIdentity(lockbox.backend, now))
        if !preview.values.contains(where: \.isDone) { return report(record, preview, isDryRun: false) }
        let claim = try MigrationClaim(marker, lockbox.backend, now: now)
        let outcomes: [String: MigrationReport.Outcome]
        do { outcomes = try migrate(except: claim.record.done, claim, progress) } catch {
            // Releases the claim, so that the next run need not wait.
            try? claim.release()
            throw error
        }
        // Absent items are not recorded as done, because they may appear later, for example on a disk that is
        // mounted later.
        try claim.release(done: outcomes.filter { $0.value.isDone }.keys)
        return report(claim.record, outcomes, isDryRun: false)
    }

    func dryRun() throws -> MigrationReport {
        let record = try marker.map(record) ?? MigrationRecord()
        return report(record, try outcomes(except: record, nil), isDryRun: true)
    }

    /// Returns what a run would do.
    private func outcomes(except record: MigrationRecord, _ identity: StoreIdentity?) throws
        -> [String: MigrationReport.Outcome]
    {
        let steps = try steps(except: record.done, migration.source.open(lockbox, now), identity)
        return Dictionary(uniqueKeysWithValues: steps.map { ($0.key, $0.step.outcome) })
    }

    private func record(_ marker: ItemKey) throws -> MigrationRecord {
        try MigrationRecord(lockbox.backend.value(for: marker, now: now), marker)
    }

    private func isDone(_ record: MigrationRecord) -> Bool {
        migration.items.allSatisfy { record.done.contains($0.key) }
    }

    private func report(
        _ record: MigrationRecord,
        _ outcomes: [String: MigrationReport.Outcome],
        isDryRun: Bool
    ) -> MigrationReport {
        MigrationReport(
            name: migration.name,
            outcomes: migration.items.map { ($0.key, outcomes[$0.key] ?? .doneBefore) },
            isDryRun: isDryRun
        )
    }

    // MARK: Planning

    private enum Step {
        case none(MigrationReport.Outcome)
        /// Replaces the old item with the new one, under the same key. If the source is another store with the
        /// same item, removes it there.
        case replace(old: StoredItem, new: StoredItem, source: SourceItem?)
        /// Writes the new item, unless an earlier run has, and removes the old one.
        case move(old: SourceItem, new: StoredItem, isWritten: Bool)

        var outcome: MigrationReport.Outcome {
            if case .none(let outcome) = self { return outcome }
            return .migrated
        }

        /// The item to remove from the source in the end.
        var removal: SourceItem? {
            switch self {
            case .none: nil
            case .replace(_, _, let source): source
            case .move(let old, _, _): old
            }
        }

        /// Items whose class is locked first are written first: if they can be written, so can the others.
        var rank: Int {
            switch self {
            case .replace(_, let new, _), .move(_, let new, false): new.attributes.accessibility.rank
            case .none, .move(_, _, true): 0
            }
        }
    }

    private func steps(
        except done: Set<String>,
        _ source: any SourceItems,
        _ identity: StoreIdentity?,
        _ claim: MigrationClaim? = nil
    ) throws -> [(key: String, step: Step)] {
        let state = try (lockbox.backend as? any LockableBackend)?.lockState
        return try migration.items.filter { !done.contains($0.key) }.map {
            try claim?.renew()
            return ($0.key, try step($0, source, identity, state))
        }
    }

    /// - Parameter identity: Nil in a dry run, which takes an equal item under the same key for the same item.
    private func step(
        _ item: Migration.Item,
        _ source: any SourceItems,
        _ identity: StoreIdentity?,
        _ state: LockState?
    ) throws -> Step {
        let key = try lockbox.itemKey(item.newKey)
        let existing: StoredItem?
        let found: SourceItem?
        do {
            existing = try lockbox.backend.item(for: key, now: now)
            found = try source.item(forKey: item.key)
        } catch let fault as SourceError {
            return .none(.refused(MigrationRefusal(fault)))
        } catch let error as LockboxError where error.isOfOneRecord {
            // A damaged item does not prevent the others from being migrated.
            return .none(.refused(.malformed(reason: error.description)))
        }
        let nothing = Step.none(
            existing.map { $0.value.format != .lockbox2 } ?? false ? .alreadyNew : .absent
        )
        guard let old = found else { return nothing }
        do {
            if let stored = old.new {
                let isInPlace =
                    try existing?.key == stored.key && isSameStore(source, identity, existing == stored)
                return try isInPlace ? .none(.alreadyNew) : move(old, stored, item, key, existing, state)
            }
            let value = try item.decode(old.value)
            if let existing, existing != old.stored {
                guard value.equals(existing.value, of: lockbox) else {
                    return .none(.refused(.destinationTaken))
                }
                return .move(old: old, new: existing, isWritten: true)
            }
            let new = try newItem(item, key, value, old.attributes)
            try state?.check(new.attributes.accessibility)
            if let stored = old.stored, existing != nil {
                let isInPlace = try isSameStore(source, identity, true)
                if migration.keepsOldItems, isInPlace { return .none(.refused(.destinationTaken)) }
                return .replace(old: stored, new: new, source: isInPlace ? nil : old)
            }
            return .move(old: old, new: new, isWritten: false)
        } catch SourceError.nothing {
            return nothing
        } catch let fault as SourceError {
            return .none(.refused(MigrationRefusal(fault)))
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
    ) throws -> Step {
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
        guard existing == nil || existing == new else { return .none(.refused(.destinationTaken)) }
        // An earlier run has written it.
        if existing != nil { return .move(old: old, new: new, isWritten: true) }
        try state?.check(new.attributes.accessibility)
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

    // MARK: Writing

    private func migrate(
        except done: Set<String>,
        _ claim: MigrationClaim?,
        _ progress: (StoreProgress) -> Void
    ) throws -> [String: MigrationReport.Outcome] {
        let source = try migration.source.open(lockbox, now)
        let identity = StoreIdentity(lockbox.backend, now)
        let steps = try steps(except: done, source, identity, claim).sorted { $0.step.rank < $1.step.rank }
        var outcomes: [String: MigrationReport.Outcome] = [:]
        var moved: [String: SourceItem] = [:]
        var next = 0
        var isDurable: Set<ItemKey> = []
        for (index, (key, step)) in steps.enumerated() {
            try claim?.renew()
            if index == next { next += writeTogether(steps[index...].lazy.map(\.step), &isDurable) }
            outcomes[key] = try write(step, isDurable)
            if let old = step.removal, outcomes[key] == .migrated { moved[key] = old }
            progress(StoreProgress(completed: index + 1, total: steps.count))
        }
        if !migration.keepsOldItems, !moved.isEmpty {
            try claim?.renew()
            for key in try source.remove(moved) { outcomes[key] = .refused(.changed) }
        }
        return outcomes
    }

    /// Writes the next new items in one batch, which is faster than one by one. If it is refused, they are written one
    /// by one. Returns how many steps it has looked at.
    ///
    /// - Parameter isDurable: Receives the keys of the items, unless there was an error.
    private func writeTogether(_ steps: some Collection<Step>, _ isDurable: inout Set<ItemKey>) -> Int {
        var items: [StoredItem] = []
        var (count, size) = (0, 0)
        for step in steps.prefix(ItemOperation.batch) where size < ItemOperation.batchSize {
            count += 1
            guard case .move(let old, let new, false) = step, old.new == nil else { continue }
            size += new.attributes.size
            items.append(new)
        }
        if items.count > 1, (try? lockbox.backend.apply(items.map(ItemOperation.add))) != nil {
            isDurable.formUnion(items.map(\.key))
        }
        return count
    }

    private func write(_ step: Step, _ isDurable: Set<ItemKey>) throws -> MigrationReport.Outcome {
        do {
            switch step {
            case .none(let outcome): return outcome
            case .move(_, _, true) where migration.keepsOldItems: return .migrated
            case .move(let old, let new, _):
                if isDurable.contains(new.key) {
                    // Somebody may have replaced it since the batch.
                    let current = try lockbox.backend.item(for: new.key, now: nil)?.value
                    return current == new.value ? .migrated : .refused(.destinationTaken)
                }
                try write(new, isMoved: old.new != nil)
                try verify(new, isMoved: old.new != nil)
            case .replace(let old, let new, _):
                var isChanged = false
                try lockbox.backend.update(new.key, now: now) { current in
                    isChanged = current != old
                    return isChanged ? current : new
                }
                if isChanged { return .refused(.changed) }
                try verify(new)
            }
            return .migrated
        } catch LockboxError.duplicateItem {
            return .refused(.destinationTaken)
        } catch LockboxError.conflict {
            return .refused(.changed)
        } catch LockboxError.passcodeNotSet {
            return .refused(.notStorable(reason: LockboxError.passcodeNotSet.description))
        }
    }

    /// An equal item is written again: whoever wrote it may have been killed before it was durable.
    private func write(_ new: StoredItem, isMoved: Bool) throws {
        // By a moved item's own date, an expired one in its place may not be expired.
        if try isMoved || lockbox.backend.item(for: new.key, now: now) == new {
            return try lockbox.backend.update(new.key, now: now) { current in
                try WritePolicy.addOnly.check(key: new.key.key, exists: current != nil && current != new)
                return new
            }
        }
        try lockbox.backend.write(new, policy: .addOnly)
    }

    /// An old item is removed only after the new one has been read back.
    private func verify(_ new: StoredItem, isMoved: Bool = false) throws {
        let item = try lockbox.backend.item(for: new.key, now: nil)
        let stored = item?.value
        guard stored == new.value, !isMoved || item == new else {
            throw lockbox.backend.errorOfReadingBack(new, now: now)
        }
    }

    // MARK: Validation

    private func check() throws {
        for item in migration.items { _ = try lockbox.itemKey(item.newKey) }
        for (what, keys) in [("old", migration.items.map(\.key)), ("new", migration.items.map(\.newKey))] {
            guard Set(keys).count == keys.count else {
                throw LockboxError.invalidKey(reason: "two items of the migration have the same \(what) key")
            }
        }
        if let prefix = migration.source.keyPrefix?(lockbox) {
            for item in migration.items { _ = try ItemKey(prefix: prefix, key: item.key) }
        }
        guard migration.source.isStore else { return }
        if migration.keepsOldItems, let item = migration.items.first(where: { $0.key == $0.newKey }) {
            throw LockboxError.invalidKey(
                reason:
                    "the item \(String(reflecting: item.key)) cannot be kept, because the new item has the same key"
            )
        }
        // Otherwise a later run would take one item's new key for another's old one.
        let places = Set(migration.items.filter { $0.key != $0.newKey }.map(\.newKey))
        guard places.isDisjoint(with: migration.items.map(\.key)) else {
            throw LockboxError.invalidKey(reason: "the migration moves an item to the old key of another")
        }
    }
}

extension MigrationReport.Outcome {
    fileprivate var isDone: Bool {
        switch self {
        case .migrated, .alreadyNew, .doneBefore: true
        case .absent, .refused: false
        }
    }
}

extension LockboxError {
    fileprivate var isOfOneRecord: Bool {
        switch self {
        case .corrupt, .authenticationFailed, .unsupportedVersion: true
        default: false
        }
    }
}
