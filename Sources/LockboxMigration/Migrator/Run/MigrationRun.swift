import LockboxCore
import LockboxFiles
import LockboxPlatform

/// A run of a migration: reads everything, then writes all new items, then removes the old ones.
struct MigrationRun {
    let migration: Migration
    let lockbox: Lockbox
    /// The key of the migration's record. Nil if nothing is remembered.
    private let marker: ItemKey?
    let now: Date

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
        guard let marker else { return report(try migrate(except: [], nil, progress).outcomes) }
        let done = try record(marker).done
        let preview = try preview(except: done, StoreIdentity(lockbox.backend, now))
        guard preview.contains(where: \.step.isToBeRecorded) else { return report(outcomes(preview)) }
        let claim = try MigrationClaim(marker, lockbox.backend, now: now)
        let result: Result
        do { result = try migrate(except: claim.record.done, claim, progress) } catch {
            // Releases the claim, so that the next run need not wait.
            try? claim.release()
            throw error
        }
        try claim.release(done: result.done)
        return report(result.outcomes)
    }

    func dryRun() throws -> MigrationReport {
        let done = try marker.map(record)?.done ?? []
        return report(try outcomes(preview(except: done, nil)), isDryRun: true)
    }

    private func record(_ marker: ItemKey) throws -> MigrationRecord {
        try MigrationRecord(lockbox.backend.value(for: marker, now: now), marker)
    }

    private func outcomes(_ steps: [(key: String, step: MigrationStep)]) -> [String: MigrationReport.Outcome]
    {
        Dictionary(uniqueKeysWithValues: steps.map { ($0.key, $0.step.outcome) })
    }

    /// - Parameter outcomes: Those of the items with which there was something to do.
    private func report(_ outcomes: [String: MigrationReport.Outcome], isDryRun: Bool = false)
        -> MigrationReport
    {
        MigrationReport(
            name: migration.name,
            outcomes: migration.items.map {
                .init(key: $0.key, outcome: outcomes[$0.key] ?? .migratedBefore)
            },
            isDryRun: isDryRun
        )
    }

    // MARK: Writing

    /// - `done`: The old keys of the items that are to be recorded as done.
    private typealias Result = (outcomes: [String: MigrationReport.Outcome], done: Set<String>)

    private func migrate(
        except done: Set<String>,
        _ claim: MigrationClaim?,
        _ progress: (StoreProgress) -> Void
    ) throws -> Result {
        let source = try open(except: done)
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
        let finished = steps.filter { $0.step.isToBeRecorded && outcomes[$0.key] == $0.step.outcome }
        return (outcomes, Set(finished.map(\.key)))
    }

    /// Writes the next new items in one batch, which is faster than one by one. If it is refused, they are written one
    /// by one. Returns how many steps it has looked at.
    ///
    /// - Parameter isDurable: Receives the keys of the items, unless there was an error.
    private func writeTogether(_ steps: some Collection<MigrationStep>, _ isDurable: inout Set<ItemKey>)
        -> Int
    {
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

    private func write(_ step: MigrationStep, _ isDurable: Set<ItemKey>) throws -> MigrationReport.Outcome {
        do {
            switch step {
            case .none(let outcome): return outcome
            case .inPlace: return step.outcome
            case .move(_, _, true) where migration.keepsOldItems: return .migrated
            case .move(let old, let new, _):
                if isDurable.contains(new.key) {
                    // Somebody may have replaced it since the batch.
                    let current = try lockbox.backend.item(for: new.key, now: nil)?.value
                    return current == new.value ? .migrated : .refused(.destinationExists)
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
            return .refused(.destinationExists)
        } catch LockboxError.conflict {
            return .refused(.changed)
        } catch let error as LockboxError
            where error.code == .passcodeNotSet || error.code == .requirementNotMet
            || error.code == .keychainFailure && error.osStatus == -25299  // errSecDuplicateItem
        {
            // Of the new item's class, or another program has an item in its place.
            return .refused(.notStorable(reason: error.description))
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
