import Foundation

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// In memory, and wrong in one way.
struct DefectiveBackend: LockableBackend, VerifiableBackend, NotifyingBackend {
    enum Defect: CaseIterable {
        case ignoresPolicy, ignoresExpiry, ignoresPrefix, forgetsLabel, losesCreated, joinsNames,
            removesEverything
        case forgetsSearchable, dropsLastOfBatch, resetsWhatIsNotNamed, keepsExpiryOfReplacedValue,
            losesExpiryOfUpdatedValue
        case changesValue, neverRemoves, destroysExpired, updatesBlindly
        case updatesWithoutLock, updateReadsBeforeTheLock, waitsForItself, misstatesItsLock, verifiesNothing
        case movesACopy, movesWhatHasExpired, movesOverAnything
        case reportsNothing, reportsOtherPrefixes, reportsNoRemovals, neverStopsReporting
    }

    private let wrapped = InMemoryBackend()
    private let lock = Lock()
    private let defect: Defect

    init(_ defect: Defect) { self.defect = defect }

    private func mapped(_ key: ItemKey) throws -> ItemKey {
        switch defect {
        case .joinsNames: try ItemKey(prefix: "all", key: "\(key.prefix).\(key.key)")
        case .ignoresPrefix: try ItemKey(prefix: "all", key: key.key)
        default: key
        }
    }

    private func mapped(_ now: Date?) -> Date? { defect == .ignoresExpiry ? nil : now }

    private func destroyExpired(_ prefix: String, _ now: Date?) throws {
        if defect == .destroysExpired, let now { try wrapped.removeExpired(prefix: prefix, now: now) }
    }

    func write(_ changes: ItemChanges, to key: ItemKey, policy: WritePolicy) throws {
        var changes = changes
        switch defect {
        case .losesCreated: wrapped.remove(key)
        case .changesValue:
            changes.value = try changes.value.map { try ArchivedValue(data: $0.data + [0], format: .data) }
        case .forgetsLabel: changes.label = .removed
        case .forgetsSearchable: changes.attributes = .removed
        case .resetsWhatIsNotNamed where changes.label == .unchanged: changes.label = .removed
        case .keepsExpiryOfReplacedValue where changes.expires == .automatic: changes.expires = .unchanged
        case .losesExpiryOfUpdatedValue where changes.expires == .automatic: changes.expires = .never
        default: break
        }
        try wrapped.write(changes, to: mapped(key), policy: defect == .ignoresPolicy ? .replace : policy)
    }

    func apply(_ operations: [ItemOperation]) throws {
        if defect == .dropsLastOfBatch { return try wrapped.apply(operations.dropLast()) }
        try ItemOperation.checkKeys(operations)
        for operation in operations {
            switch operation {
            case .write(let changes, let key, let policy): try write(changes, to: key, policy: policy)
            case .remove(let key): try remove(key)
            }
        }
    }

    func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        switch defect {
        case .movesACopy: try copy(key, to: newKey, policy: policy, now: now)
        case .movesWhatHasExpired: try wrapped.move(key, to: newKey, policy: policy, now: .distantPast)
        case .movesOverAnything: try moveInTwoSteps(key, to: newKey, policy: .replace, now: now)
        default: try moveInTwoSteps(key, to: newKey, policy: policy, now: now)
        }
    }

    var lockState: LockState { defect == .misstatesItsLock ? .beforeFirstUnlock : .noPasscode }

    func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport {
        let prefixes = defect == .verifiesNothing ? [] : wrapped.prefixes()
        return VerifyReport(
            intactCount: prefixes.reduce(0) { $0 + wrapped.attributes(prefix: $1, now: nil).count }
        )
    }

    func subscribe(prefix: String, _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void)
        -> @Sendable () -> Void
    {
        if defect == .reportsNothing { return {} }
        let cancels = (defect == .reportsOtherPrefixes ? [prefix, "\(prefix).other"] : [prefix]).map {
            wrapped.subscribe(prefix: $0) { [wrapped, defect] change in
                if defect == .reportsNoRemovals, case .success(.item(let key)) = change,
                    (try? ItemKey(prefix: prefix, key: key)).flatMap({ wrapped.item(for: $0, now: nil) })
                        == nil
                {
                    return
                }
                report(change)
            }
        }
        return { [defect] in if defect != .neverStopsReporting { cancels.forEach { $0() } } }
    }

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        if defect == .waitsForItself { lock.withLock { lock.withLock {} } }
        try destroyExpired(key.prefix, now)
        return try wrapped.item(for: mapped(key), now: mapped(now))
    }

    func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try wrapped.attributes(for: mapped(key), now: mapped(now))
    }

    func attributes(prefix: String, now: Date?) -> [ItemKey: ItemAttributes] {
        wrapped.attributes(prefix: prefix, now: mapped(now))
    }

    func prefixes() -> Set<String> { wrapped.prefixes() }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        if defect == .updatesWithoutLock {
            return try put(change(item(for: key, now: now)), for: key)
        }
        if defect == .updateReadsBeforeTheLock {
            let old = try item(for: key, now: now)
            return try wrapped.update(key, now: now) { _ in try change(old) }
        }
        try wrapped.update(mapped(key), now: now) {
            try defect == .updatesBlindly ? change($0) ?? $0 : change($0)
        }
    }

    private func put(_ item: StoredItem?, for key: ItemKey) throws {
        if let item { try wrapped.write(item, policy: .replace) } else { wrapped.remove(key) }
    }

    func remove(_ key: ItemKey) throws {
        if defect != .neverRemoves { try wrapped.remove(mapped(key)) }
    }

    func removeAll(prefix: String) {
        wrapped.removeAll(prefix: prefix)
        if defect == .removesEverything { wrapped.prefixes().forEach(wrapped.removeAll) }
    }

    func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        try wrapped.removeExpired(prefix: prefix, now: now, unreadable: unreadable)
    }
}
