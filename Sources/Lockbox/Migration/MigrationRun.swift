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
    /// Nil in a dry run, which takes an equal item under the same key for the same item.
    private let identity: StoreIdentity?

    init(_ migration: Migration, _ lockbox: Lockbox, isDryRun: Bool) throws {
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
        identity = isDryRun ? nil : StoreIdentity(lockbox.backend, now)
        try check()
    }

    func perform(_ progress: (StoreProgress) -> Void) throws -> MigrationReport {
        guard let marker else { return report(try migrate(except: [], nil, progress).outcomes) }
        let done = try record(marker).done
        let preview = try preview(except: done)
        guard preview.contains(where: \.step.isToBeRecorded) else {
            let outcomes = outcomes(preview)
            try LockboxError.ifSupported { try lockbox.backend.synchronize(prefix: marker.prefix) }
            if outcomes.values.contains(.alreadyMigrated) { try synchronize(open(except: done)) }
            return report(outcomes)
        }
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
        return report(try outcomes(preview(except: done)))
    }

    private func record(_ marker: ItemKey) throws -> MigrationRecord {
        try MigrationRecord(lockbox.backend.value(for: marker, now: now), marker)
    }

    private func outcomes(_ steps: [(key: String, step: MigrationStep)]) -> [String: MigrationReport.Outcome]
    {
        Dictionary(uniqueKeysWithValues: steps.map { ($0.key, outcome(of: $0.step)) })
    }

    private func outcome(of step: MigrationStep) -> MigrationReport.Outcome {
        step.isWritten && migration.keepsOldItems ? .alreadyMigrated : step.outcome
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
        let steps = try steps(except: done, source, claim).sorted { $0.step.rank < $1.step.rank }
        var outcomes: [String: MigrationReport.Outcome] = [:]
        var moved: [String: SourceItem] = [:]
        var next = 0
        var mover = Mover(to: claim?.destination ?? lockbox.backend, now: now)
        for (index, (key, step)) in steps.enumerated() {
            try claim?.renew()
            if index == next { next += add(steps[index...].lazy.map(\.step), with: &mover) }
            outcomes[key] = try write(step, with: mover)
            if let old = step.removal, outcomes[key] == .migrated { moved[key] = old }
            progress(StoreProgress(completed: index + 1, total: steps.count))
        }
        try synchronize(source)
        if !migration.keepsOldItems, !moved.isEmpty {
            for key in try remove(moved, from: source, claim) { outcomes[key] = .refused(.changed) }
        }
        let finished = steps.filter { $0.step.isToBeRecorded && outcomes[$0.key] == outcome(of: $0.step) }
        return (outcomes, Set(finished.map(\.key)))
    }

    /// Makes durable what was found: the process that wrote or removed it may have been killed before it was.
    private func synchronize(_ source: any SourceItems) throws {
        try LockboxError.ifSupported { try lockbox.backend.synchronize(prefix: lockbox.keyPrefix) }
        guard let source = source as? BackendItems else { return }
        try LockboxError.ifSupported { try source.backend.synchronize(prefix: source.keyPrefix) }
    }

    /// Removes the old items of a backend one by one, which may take long, and others at once.
    private func remove(_ old: [String: SourceItem], from source: any SourceItems, _ claim: MigrationClaim?)
        throws -> Set<String>
    {
        // What the source removes does not depend on the claim.
        try claim?.renew(isDue: true)
        guard source is BackendItems else { return try source.remove(old) }
        return try old.sorted { $0.key < $1.key }.reduce(into: []) { changed, old in
            try claim?.renew()
            changed.formUnion(try source.remove([old.key: old.value]))
        }
    }

    /// Writes the next new items in one batch. Returns how many steps it has looked at.
    private func add(_ steps: some Collection<MigrationStep>, with mover: inout Mover) -> Int {
        var items: [StoredItem] = []
        var (count, size) = (0, 0)
        for step in steps.prefix(ItemOperation.batch) where size < ItemOperation.batchSize {
            count += 1
            guard case .store(let new, nil, _) = step else { continue }
            size += new.attributes.size
            items.append(new)
        }
        mover.add(items)
        return count
    }

    private func write(_ step: MigrationStep, with mover: Mover) throws -> MigrationReport.Outcome {
        guard case .store(let new, let old, _) = step, outcome(of: step) == .migrated else {
            return outcome(of: step)
        }
        do {
            // An equal item is written again: its writer may have been killed before it was durable.
            if try mover.put(new, where: { $0 == old || $0 == new }) { return .migrated }
            return .refused(old == nil ? .destinationExists : .changed)
        } catch LockboxError.duplicateItem {
            return .refused(.destinationExists)
        } catch LockboxError.conflict {
            // If another process has taken over, the end of the run says so.
            return .refused(.changed)
        } catch let error as LockboxError
            where error.code == .passcodeNotSet || error.code == .requirementNotMet
            || error.code == .keychainFailure && error._code == -25299  // errSecDuplicateItem
        {
            // The store refuses the new item's class, or another program has an item in its place.
            return .refused(.notStorable(reason: error.description))
        }
    }

    // MARK: Validation

    private func check() throws {
        for item in migration.items { _ = try lockbox.itemKey(item.newKey) }
        for (what, key) in [("old", \Migration.Item.key), ("new", \.newKey)] {
            var names: [String: String] = [:]
            for item in migration.items {
                guard let other = names.updateValue(item.key, forKey: item[keyPath: key]) else { continue }
                throw LockboxError.invalidKey(
                    reason:
                        "the items \(String(reflecting: other)) and \(String(reflecting: item.key)) have the same \(what) key"
                )
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
    func preview(except done: Set<String>) throws -> [(key: String, step: MigrationStep)] {
        if isFinished(done), !looksAgain { return [] }
        return try steps(except: done, open(except: done))
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
            return try step(item, known, source, state).map { (key: item.key, step: $0) }
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
        _ state: LockState?
    ) throws -> MigrationStep? {
        if case .unknown(let error) = known {
            let reason = (error as? LockboxError)?.description ?? (error as? MigrationRefusal)?.description
            return .none(.refused(.malformed(reason: reason ?? "its source cannot be read")))
        }
        let step = try step(item, source, state)
        switch (known, step) {
        case (.back, .inPlace), (.back, .none(.alreadyMigrated)), (.back, .none(.absent)): return nil
        default: return step
        }
    }

    private func step(
        _ item: Migration.Item,
        _ source: any SourceItems,
        _ state: LockState?
    ) throws -> MigrationStep {
        let key = try lockbox.itemKey(item.newKey)
        let existing: StoredItem?
        let found: SourceItem?
        do {
            let seen = try lockbox.backend.item(for: key, now: now)
            found = try source.item(forKey: item.key)
            existing = try stored(found, inPlaceOf: seen, key, source) ?? seen
        } catch let refusal as MigrationRefusal {
            return .none(.refused(refusal))
        } catch let error as LockboxError where error.isOfOneItem {
            // A damaged item does not prevent the others from being migrated.
            return .none(.refused(.malformed(reason: error.description)))
        }
        let isNew = existing.map { $0.value.format != .lockbox2 } ?? false
        guard let old = found else {
            if !isNew { return .none(.absent) }
            // Elsewhere, the old item may still come.
            return migration.source.isStore ? .inPlace : .none(.alreadyMigrated)
        }
        do {
            let step = try step(item, from: old, in: source, to: key, existing, state)
            return step ?? (isNew ? .inPlace : .none(.absent))
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

    /// Returns nil if the old item stands for none.
    private func step(
        _ item: Migration.Item,
        from old: SourceItem,
        in source: any SourceItems,
        to key: ItemKey,
        _ existing: StoredItem?,
        _ state: LockState?
    ) throws -> MigrationStep? {
        if let stored = old.new {
            let isInPlace =
                try existing?.key == stored.key && isSameStore(source, orElse: existing == stored)
            return try isInPlace ? .inPlace : move(old, stored, item, key, existing, state)
        }
        guard let value = try item.decode(old.value) else { return nil }
        if let existing, existing != old.stored {
            guard value.equals(existing.value, of: lockbox) else {
                return .none(.refused(.destinationExists))
            }
            return .store(existing, over: existing, removing: old)
        }
        let new = try newItem(item, key, value, old.attributes)
        try state?.check(new.attributes.accessibility)
        guard let stored = old.stored, existing != nil else { return try create(new, from: old) }
        let isInPlace = try isSameStore(source, orElse: true)
        if migration.keepsOldItems, isInPlace { return .none(.refused(.destinationExists)) }
        return .store(new, over: stored, removing: isInPlace ? nil : old)
    }

    /// Returns an item in its own place, which is looked at twice. Others may have changed it in between, and the later look counts.
    private func stored(
        _ found: SourceItem?,
        inPlaceOf seen: StoredItem?,
        _ key: ItemKey,
        _ source: any SourceItems
    ) throws -> StoredItem? {
        guard let stored = found?.stored, stored.key == key, try isSameStore(source, orElse: stored == seen)
        else { return nil }
        return stored
    }

    /// Whether the source is this same store. It may have been opened separately, so that only a test can tell.
    private func isSameStore(_ source: any SourceItems, orElse guess: Bool) throws -> Bool {
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
            return migration.keepsOldItems ? .inPlace : .store(new, over: new, removing: old)
        }
        try state?.check(new.attributes.accessibility)
        return try create(new, from: old)
    }

    private func create(_ new: StoredItem, from old: SourceItem) throws -> MigrationStep {
        try lockbox.backend.checkForForeignItem(new.key)
        return .store(new, over: nil, removing: old)
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
    /// Stores the new item in the place of one that is there, which may be the new item itself, from an earlier run. Then removes an
    /// item of the source, unless the one replaced was that.
    case store(StoredItem, over: StoredItem?, removing: SourceItem?)

    var outcome: MigrationReport.Outcome {
        switch self {
        case .none(let outcome): outcome
        case .inPlace: .alreadyMigrated
        case .store: .migrated
        }
    }

    /// Whether the item is recorded as done afterwards. Not if it is absent, or new while the source has none: it may
    /// appear later, for example on a disk that is mounted later.
    var isToBeRecorded: Bool {
        if case .none = self { false } else { true }
    }

    /// Whether an earlier run has stored the new item.
    var isWritten: Bool {
        if case .store(let new, let old, _) = self { new == old } else { false }
    }

    /// The item to remove from the source in the end.
    var removal: SourceItem? {
        if case .store(_, _, let removal) = self { removal } else { nil }
    }

    /// Items whose class is locked first are written first: if they can be written, so can the others.
    var rank: Int {
        if case .store(let new, _, _) = self, !isWritten { new.attributes.accessibility.rank } else { 0 }
    }
}
