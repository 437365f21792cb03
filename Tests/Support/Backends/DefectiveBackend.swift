import Foundation
import Synchronization

import Lockbox
@_spi(Extensions) @testable import LockboxCore

/// In memory, and wrong in one way, or right without a defect.
struct DefectiveBackend: LockboxBackend {
    final class State: Sendable {
        let damaged = Protected<Set<ItemKey>>([])
        /// A second `withLock` of it on a thread ends the process.
        let mutex = Mutex(())
        let lock = Lock()
    }

    let wrapped = InMemoryBackend()
    let state = State()
    let defect: Defect?

    init(_ defect: Defect?) { self.defect = defect }

    var maximumValueSize: Int { 100_000 }

    private func mapped(_ key: ItemKey) throws -> ItemKey {
        switch defect {
        case .joinsNames: try ItemKey(prefix: "all", key: "\(key.prefix).\(key.key)")
        case .ignoresPrefix: try ItemKey(prefix: "all", key: key.key)
        case .comparesBytes: try ItemKey(prefix: key.prefix, key: Array(key.key.utf8).hexadecimal)
        case .ignoresCase: try ItemKey(prefix: key.prefix, key: key.key.lowercased())
        case .refusesReservedPrefixes: try ItemKey(prefix: key.prefix, key: key.key)
        default: key
        }
    }

    private func mapped(_ now: Date?) -> Date? { defect == .ignoresExpiry ? nil : now }

    // MARK: Damage

    /// Makes an item unreadable.
    func damage(_ key: ItemKey) { _ = state.damaged.withLock { $0.insert(key) } }

    func isDamaged(_ key: ItemKey) -> Bool { state.damaged.withLock { $0.contains(key) } }

    func error(of key: ItemKey) -> LockboxError {
        .corrupt(
            record: defect == .misnamesDamaged ? "an item" : .record(record(of: key)),
            reason: "it is damaged"
        )
    }

    func record(of key: ItemKey) -> String {
        defect == .hasOneLocation
            ? "record" : "record \(String(reflecting: key.prefix)) \(String(reflecting: key.key))"
    }

    private func unreadableItem(_ key: ItemKey) -> UnreadableItem {
        UnreadableItem(key: key, record: record(of: key), location: record(of: key), error: error(of: key))
    }

    private func checkIsReadable(_ key: ItemKey) throws {
        if !isDamaged(key) || defect == .takesDamagedForAbsent { return }
        if defect == .removesDamaged { forget(key) }
        throw error(of: key)
    }

    /// The items of a prefix, and those of them that are damaged.
    func items(_ prefix: String, at now: Date?) -> (intact: [ItemKey: ItemAttributes], damaged: Set<ItemKey>)
    {
        let all = wrapped.attributes(prefix: prefix, now: mapped(now))
        return (all.filter { !isDamaged($0.key) }, Set(all.keys.filter(isDamaged)))
    }

    func forget(_ key: ItemKey) {
        wrapped.remove(key)
        _ = state.damaged.withLock { $0.remove(key) }
    }

    // MARK: Reading

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        if defect == .waitsForItself { state.lock.withLock { state.lock.withLock {} } }
        try checkIsReadable(key)
        if isDamaged(key) { return nil }
        if defect == .destroysExpired, let now { try wrapped.removeExpired(prefix: key.prefix, now: now) }
        guard let item = try wrapped.item(for: mapped(key), now: mapped(now)) else { return nil }
        guard defect == .changesDatesOfItems else { return item.renamed(to: key) }
        return try StoredItem(key: key, value: item.value, modified: item.attributes.modified + 1)
    }

    func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        let value = try item(for: key, now: now)?.value
        return try value ?? (defect == .inventsValues ? ArchivedValue(data: Data(), format: .data) : nil)
    }

    func values(for keys: [ItemKey], now: Date?) throws -> [ItemKey: ArchivedValue] {
        var values: [ItemKey: ArchivedValue] = [:]
        for key in keys {
            values[key] = try value(for: key, now: defect == .readsExpiredOfSeveral ? nil : now)
        }
        return values
    }

    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        let (intact, damaged) = items(prefix, at: now)
        if let key = damaged.first, defect != .skipsDamaged { throw error(of: key) }
        return intact
    }

    func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        let (intact, damaged) = items(prefix, at: defect == .listsExpired ? nil : now)
        for key in damaged where defect != .skipsDamaged {
            try unreadable(unreadableItem(key))
        }
        var all = Array(intact)
        if defect == .listsTwice { all += all }
        if defect == .listsOtherPrefixes, prefix == "com.example.empty" {
            all += wrapped.prefixes().flatMap { items($0, at: now).intact }
        }
        for (key, attributes) in all {
            switch defect {
            case .listsUnderItsLock: try state.mutex.withLock { _ in try body(key, attributes) }
            case .swallowsErrorsOfLists: try? body(key, attributes)
            default: try body(key, attributes)
            }
        }
    }

    func prefixes() -> Set<String> {
        var prefixes = wrapped.prefixes()
        // The one of the suite.
        let reserved = "\0conformance\0com.example.conformance"
        if defect == .showsReservedPrefixes, !items(reserved, at: nil).intact.isEmpty {
            prefixes.insert(reserved)
        }
        return prefixes
    }

    func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String> {
        defect == .listsFewerPrefixes ? Set(prefixes().dropFirst()) : prefixes()
    }

    // MARK: Changing

    func write(_ changes: ItemChanges, to key: ItemKey) throws {
        if defect == .listsUnderItsLock { state.mutex.withLock { _ in } }
        var changes = changes
        let now = changes.modified
        switch defect {
        case .losesCreated: wrapped.remove(key)
        case .changesValue:
            changes.value = try changes.value.map { try ArchivedValue(data: $0.data + [0], format: .data) }
        case .cutsLongValues:
            changes.value = try changes.value.map {
                try ArchivedValue(data: $0.data.prefix(65_536), format: .data)
            }
        case .forgetsLabel: changes.options.label = .removed
        case .forgetsSearchable: changes.options.attributes = .removed
        case .forgetsClass: changes.options.accessibility = nil
        case .forgetsExpiryWithTheClass where changes.value == nil: changes.options.expires = .never
        case .resetsWhatIsNotNamed where changes.options.label == .unchanged: changes.options.label = .removed
        case .keepsExpiryOfReplacedValue where changes.options.expires == .automatic:
            changes.options.expires = .unchanged
        case .losesExpiryOfUpdatedValue where changes.options.expires == .automatic:
            changes.options.expires = .never
        case .createsFromAttributes where try item(for: key, now: now) == nil:
            changes.value = try changes.value ?? ArchivedValue(data: Data(), format: .data)
        case .ignoresPolicy: changes.options.policy = .replace
        case .updatesWhatIsAbsent where changes.options.policy == .updateOnly:
            changes.options.policy = .replace
        case .changesBeforeItChecks:
            var unchecked = changes
            unchecked.options.policy = .replace
            try wrapped.write(unchecked, to: key)
        case .refusesToAddOverExpired where changes.options.policy == .addOnly:
            if wrapped.item(for: key, now: nil) != nil { throw LockboxError.duplicateItem(key: key.key) }
        case .keepsNothingReservedHere where changes.options.accessibility?.isThisDeviceOnly == true:
            throw LockboxError.notSupported(operation: "this class")
        default: break
        }
        try change(key, now: now) { try changes.item(after: $0, for: key) }
    }

    func apply(_ operations: [ItemOperation]) throws {
        if defect == .dropsLastOfBatch { return try wrapped.apply(operations.dropLast()) }
        if defect != .writesOneKeyTwice { try ItemOperation.checkKeysDiffer(operations) }
        for operation in operations {
            switch operation {
            case .write(let changes, let key): try write(changes, to: key)
            case .remove(let key): try remove(key)
            case .removeReadable(let key, _) where defect == .removesUnreadable: try remove(key)
            case .removeReadable(let key, let now): try update(key, now: now) { _ in nil }
            }
        }
    }

    func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        switch defect {
        case .movesACopy: try copy(key, to: newKey, policy: policy, now: now)
        case .movesWhatHasExpired: try wrapped.move(key, to: newKey, policy: policy, now: .distantPast)
        case .movesOverAnything: try moveInTwoSteps(key, to: newKey, policy: .replace, now: now)
        case .losesWhatMovesBack:
            try copySlowly(key, to: newKey, policy: policy, now: now)
            try remove(key)
        default: try moveInTwoSteps(key, to: newKey, policy: policy, now: now)
        }
    }

    func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        switch defect {
        case .copiesNothing: return
        case .copiesWhatIsGone: try copySlowly(key, to: newKey, policy: policy, now: now)
        default:
            try [key, newKey].forEach(checkIsReadable)
            try wrapped.copy(mapped(key), to: mapped(newKey), policy: policy, now: now)
        }
    }

    /// Without a look at what becomes of the item meanwhile.
    private func copySlowly(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        guard let copy = try item(for: key, now: now)?.renamed(to: newKey) else {
            throw LockboxError.itemNotFound(key: key.key)
        }
        usleep(1000)
        try change(newKey, now: now) { old in
            if old != copy { try policy.check(key: newKey.key, exists: old != nil) }
            return copy
        }
        usleep(1000)
    }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        switch defect {
        case .updatesUnderItsLock: try state.mutex.withLock { _ in try self.change(key, now: now, change) }
        case .updatesWithoutLock:
            let item = try change(item(for: key, now: now))
            usleep(10_000)
            if let item { try wrapped.write(item, policy: .replace) } else { wrapped.remove(key) }
        case .updateReadsBeforeTheLock:
            let old = try item(for: key, now: now)
            try self.change(key, now: now) { _ in try change(old) }
        case .resetsOtherPrefixes:
            let other = "\(key.prefix).other"
            let before = items(other, at: nil).intact.keys
            try self.change(key, now: now, change)
            items(other, at: nil).intact.keys.filter { !before.contains($0) }.forEach(wrapped.remove)
        default: try self.change(key, now: now, change)
        }
    }

    private func change(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try checkIsReadable(key)
        try wrapped.update(mapped(key), now: now) { old in
            let old = old?.renamed(to: key)
            let new = try change(old) ?? (defect == .updatesBlindly ? old : nil)
            if let size = new?.value.data.count, size > maximumValueSize, defect != .storesWhatIsTooLarge {
                throw LockboxError.valueTooLarge(size: size, limit: maximumValueSize)
            }
            return try new?.renamed(to: mapped(key))
        }
    }

    func remove(_ key: ItemKey) throws {
        if defect == .neverRemoves || defect == .keepsDamaged && isDamaged(key) { return }
        try forget(mapped(key))
    }

    func removeAll(prefix: String) {
        wrapped.removeAll(prefix: prefix)
        state.damaged.withLock { $0 = $0.filter { $0.prefix != prefix } }
        if defect == .removesEverything { wrapped.prefixes().forEach(wrapped.removeAll) }
    }

    func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        if defect == .removesWhatLives {
            wrapped.removeAll(prefix: prefix)
            return 1
        }
        let (intact, damaged) = items(prefix, at: nil)
        for key in damaged where defect != .skipsDamaged {
            if defect == .takesDamagedForExpired { forget(key) } else { try unreadable(unreadableItem(key)) }
        }
        let expired = intact.filter { $0.value.isExpired(at: now) }
        expired.keys.forEach(wrapped.remove)
        return expired.count
    }
}
