@_spi(Extensions) import LockboxCore
import LockboxPlatform
import LockboxStore

/// A run of a migration: reads everything, then writes all new items, then removes the old ones.
struct MigrationRun {
    let migration: Migration
    let lockbox: Lockbox
    /// The key of the migration's record, or nil if nothing is remembered.
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
        do { result = try migrate(except: claim.done, claim, progress) } catch {
            // Releases the claim, so that the next run need not wait.
            try? claim.release()
            throw error
        }
        try claim.release(done: result.done)
        return report(result.outcomes)
    }

    func dryRun() throws -> MigrationReport {
        let done = try marker.map(record)?.done ?? []
        return report(try outcomes(preview(except: done, nil)))
    }

    private func record(_ marker: ItemKey) throws -> MigrationRecord {
        try MigrationRecord(lockbox.backend.value(for: marker, now: now), marker)
    }

    private func outcomes(_ steps: [(key: String, step: MigrationStep)]) -> [String: MigrationReport.Outcome]
    {
        Dictionary(uniqueKeysWithValues: steps.map { ($0.key, outcome(of: $0.step)) })
    }

    private func outcome(of step: MigrationStep) -> MigrationReport.Outcome {
        if case .move(_, _, isWritten: true) = step, migration.keepsOldItems { return .alreadyMigrated }
        return step.outcome
    }

    /// - Parameter outcomes: Those of the items with which there was something to do.
    private func report(_ outcomes: [String: MigrationReport.Outcome]) -> MigrationReport {
        MigrationReport(
            outcomes: migration.items.map {
                .init(key: $0.key, outcome: outcomes[$0.key] ?? .migratedBefore)
            }
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
        // The process that wrote what was there already may have been killed before it was durable.
        try LockboxError.ifSupported { try lockbox.backend.synchronize(prefix: lockbox.keyPrefix) }
        if !migration.keepsOldItems, !moved.isEmpty {
            try claim?.renew()
            for key in try source.remove(moved) { outcomes[key] = .refused(.changed) }
        }
        let finished = steps.filter { $0.step.isToBeRecorded && outcomes[$0.key] == outcome(of: $0.step) }
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
            case .move(_, _, true) where migration.keepsOldItems: return outcome(of: step)
            case .move(let old, let new, _):
                if isDurable.contains(new.key) {
                    // Another program may have replaced it since the batch.
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
            || error.code == .keychainFailure && error._code == -25299  // errSecDuplicateItem
        {
            // The store refuses the new item's class, or another program has an item in its place.
            return .refused(.notStorable(reason: error.description))
        }
    }

    /// An equal item is written again: its writer may have been killed before it was durable.
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

/// Reads everything, and decides what is to be done.
extension MigrationRun {
    /// The facts about an item before it is read.
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
        let state = try LockboxError.ifSupported { try lockbox.backend.lockState }
        let steps = try remaining.compactMap { item, known in
            try claim?.renew()
            return try step(item, known, source, identity, state).map { (key: item.key, step: $0) }
        }
        let removes = !migration.keepsOldItems && steps.contains { $0.step.removal != nil }
        if removes { try source.checkRemoval() }
        return steps
    }

    /// Opens the source. If there is nothing left to do, the app's start must not fail for what is wrong with it.
    func open(except done: Set<String>) throws -> any SourceItems {
        do { return try migration.source.open(lockbox, now) } catch {
            if isFinished(done) { return UnopenedItems(error: error) }
            throw error
        }
    }

    /// Returns nil if there is nothing to do. Costs less than to read the item.
    private func known(_ item: Migration.Item, _ done: Set<String>, _ source: any SourceItems) -> Known? {
        guard done.contains(item.key) else { return .open }
        if !looksAgain { return nil }
        do { return try source.holds(item.key) ? .back : nil } catch { return .unknown(error) }
    }

    /// Returns nil if an earlier run has done it and there is nothing left to do.
    private func step(
        _ item: Migration.Item,
        _ known: Known,
        _ source: any SourceItems,
        _ identity: StoreIdentity?,
        _ state: LockState?
    ) throws -> MigrationStep? {
        if case .unknown(let error) = known {
            let reason = (error as? LockboxError)?.description ?? (error as? MigrationRefusal)?.description
            return .none(.refused(.malformed(reason: reason ?? "its source cannot be read")))
        }
        let step = try step(item, source, identity, state)
        switch (known, step) {
        case (.back, .inPlace), (.back, .none(.alreadyMigrated)), (.back, .none(.absent)): return nil
        default: return step
        }
    }

    /// - Parameter identity: The store's identity, or nil in a dry run, which takes an equal item under the same key for the
    ///   same item.
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
            where error.isOfOneItem
        {
            // A damaged item does not prevent the others from being migrated.
            return .none(.refused(.malformed(reason: error.description)))
        }
        do { found = try source.item(forKey: item.key) } catch let refusal as MigrationRefusal {
            return .none(.refused(refusal))
        } catch let error as LockboxError
            where error.isOfOneItem
        {
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
            guard let value = try item.decode(old.value) else { return isNew ? .inPlace : .none(.absent) }
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
        let options = WriteOptions(accessibility: item.accessibility)
        let new = try ItemChanges(options: options, modified: stored.attributes.modified)
            .item(after: stored, for: key)
        guard existing == nil || existing == new else { return .none(.refused(.destinationExists)) }
        // An earlier run has written it. A dry run, which cannot tell whether it is the old item itself, says the same.
        if existing != nil {
            return migration.keepsOldItems ? .inPlace : .move(old: old, new: new, isWritten: true)
        }
        try state?.check(new.attributes.accessibility)
        return try create(new, from: old)
    }

    private func create(_ new: StoredItem, from old: SourceItem) throws -> MigrationStep {
        try lockbox.backend.checkForForeignItem(new.key)
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
            searchable: old?.searchable ?? item.attributes
        ).with(item.accessibility == nil ? old?.origin : nil)
    }
}

extension LockboxError {
    /// Whether it is about one record, or of a kind that only one can have, whichever backend it is from.
    fileprivate var isOfOneItem: Bool {
        isOfOneRecord || [.corrupt, .authenticationFailed, .unsupportedVersion].contains(code)
    }
}

/// The step of a run for an item.
enum MigrationStep {
    /// Nothing. The next run looks at the item again.
    case none(MigrationReport.Outcome)
    /// Nothing: the source has been looked at, and the item is where it belongs.
    case inPlace
    /// Replaces the old item with the new one, under the same key. If the source is another store with the
    /// same item, removes it there.
    case replace(old: StoredItem, new: StoredItem, source: SourceItem?)
    /// Writes the new item, unless an earlier run has, and removes the old one.
    case move(old: SourceItem, new: StoredItem, isWritten: Bool)

    var outcome: MigrationReport.Outcome {
        switch self {
        case .none(let outcome): outcome
        case .inPlace: .alreadyMigrated
        case .replace, .move: .migrated
        }
    }

    /// Whether the item is recorded as done afterwards. Not if it is absent, or new while the source has none: it may
    /// appear later, for example on a disk that is mounted later.
    var isToBeRecorded: Bool {
        if case .none = self { false } else { true }
    }

    /// The item to remove from the source in the end.
    var removal: SourceItem? {
        switch self {
        case .none, .inPlace: nil
        case .replace(_, _, let source): source
        case .move(let old, _, _): old
        }
    }

    /// Items whose class is locked first are written first: if they can be written, so can the others.
    var rank: Int {
        switch self {
        case .replace(_, let new, _), .move(_, let new, false): new.attributes.accessibility.rank
        case .none, .inPlace, .move(_, _, true): 0
        }
    }
}
