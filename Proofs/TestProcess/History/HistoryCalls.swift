import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The calls on items.
extension HistoryThread {
    func make(_ call: HistoryCall) throws {
        switch call {
        case .value, .item, .attributes: try read(call, randomKey())
        case .list: list(randomPrefix())
        case .prefixes: prefixes()
        case .write: try write()
        case .update: try update()
        case .take: try take()
        case .remove: remove(try randomKey())
        case .batch: try batch()
        case .changeClass: try changeClass()
        case .removeAll, .removeExpired: removeMany(call)
        default: try makeOnStore(call)
        }
    }

    /// Whether a call's date is after the expiry, and that date.
    private func date(_ call: Int) -> (isLate: Bool, date: Date) {
        let isLate = random.isOne(in: 4)
        return (isLate, HistoryTime.date(call, isLate: isLate))
    }

    private func era(_ isLate: Bool) -> String { isLate ? "late" : "early" }

    func read(_ call: HistoryCall, _ key: ItemKey) {
        let (isLate, now) = date(next())
        record("\(call) \(name(key)) \(era(isLate))") {
            switch call {
            case .value:
                try items.value(for: key, now: now).map { try "\(HistoryValue.call($0))" } ?? "absent"
            case .item: try items.item(for: key, now: now).map { try "\(HistoryState($0))" } ?? "absent"
            default: try items.attributes(for: key, now: now).map { try "\(HistoryState($0))" } ?? "absent"
            }
        }
    }

    func list(_ prefix: String) {
        let (isLate, now) = date(next())
        record("list \(prefix) \(era(isLate))") {
            let found = try items.attributes(prefix: prefix, now: now)
            return try "ok" + found.map { " \(name($0.key))=\(try HistoryState($0.value))" }.joined()
        }
    }

    func prefixes() {
        record("prefixes") { try "ok" + items.prefixes().map { " \($0)" }.joined() }
    }

    private func randomState(_ call: Int) -> HistoryState {
        HistoryState(value: call, accessibility: randomClass(), expires: random.isOne(in: 4))
    }

    private func write() throws {
        let (key, call) = (try randomKey(), next())
        let isLate = date(call).isLate
        let state = randomState(call)
        let policy = random.element([WritePolicy.replace, .replace, .addOnly, .updateOnly])
        let item = try state.item(key, isLate: isLate)
        let outcome = record("write \(name(key)) \(policy) \(state) \(era(isLate))") {
            try items.write(item, policy: policy)
            return "ok"
        }
        guard outcome.hasPrefix("error \(LockboxError.Code.outcomeUnknown) ") else { return }
        // An unacknowledged write must not come back after this.
        for _ in 0..<10 where remove(key) == "ok" { return }
    }

    /// An increment's like: what it writes depends on what it reads.
    private func update() throws {
        let (key, call) = (try randomKey(), next())
        let (isLate, now) = date(call)
        let state = randomState(call)
        record("update \(name(key)) \(state) \(era(isLate))") {
            var seen = ""
            try items.update(key, now: now) { old in
                seen = try old.map { "\(try HistoryState($0))" } ?? "absent"
                return try state.item(key, isLate: isLate).following(old)
            }
            return "ok \(seen)"
        }
    }

    /// An update that leaves nothing.
    private func take() throws {
        let key = try randomKey()
        let (isLate, now) = date(next())
        record("take \(name(key)) \(era(isLate))") {
            var seen = ""
            try items.update(key, now: now) { old in
                seen = try old.map { "\(try HistoryState($0))" } ?? "absent"
                return nil
            }
            return "ok \(seen)"
        }
    }

    @discardableResult
    private func remove(_ key: ItemKey) -> String {
        record("remove \(name(key))") {
            try items.remove(key)
            return "ok"
        }
    }

    /// A write or a removal of some of a prefix's keys.
    private func batch() throws {
        let (prefix, call) = (randomPrefix(), next())
        let isLate = date(call).isLate
        var operations: [ItemOperation] = []
        var text = ""
        for number in 0..<settings.keys where !random.isOne(in: 3) {
            let key = try ItemKey(prefix: prefix, key: String(number))
            if random.isOne(in: 4) {
                operations.append(.remove(key))
                text += " \(name(key))=absent"
            } else {
                let state = randomState(call)
                operations.append(.write(ItemChanges(try state.item(key, isLate: isLate)), to: key))
                text += " \(name(key))=\(state)"
            }
        }
        record("batch \(prefix) \(era(isLate))\(text)") {
            try items.apply(operations)
            return "ok"
        }
    }

    private func changeClass() throws {
        let (key, call) = (try randomKey(), next())
        let (isLate, now) = date(call)
        let accessibility = randomClass()
        record("changeClass \(name(key)) \(accessibility.rawValue) \(call) \(era(isLate))") {
            try items.setAccessibility(accessibility, for: key, now: now)
            return "ok"
        }
    }

    private func removeMany(_ call: HistoryCall) {
        let prefix = randomPrefix()
        let (isLate, now) = date(next())
        record("\(call) \(prefix) \(era(isLate))") {
            if call == .removeAll {
                try items.removeAll(prefix: prefix)
            } else {
                try items.removeExpired(prefix: prefix, now: now)
            }
            return "ok"
        }
    }
}

extension StoredItem {
    /// With the expiry and the first date of the item that it replaces.
    fileprivate func following(_ old: StoredItem?) throws -> StoredItem {
        guard let old else { return self }
        return try StoredItem(
            key: key,
            value: value,
            accessibility: attributes.accessibility,
            created: old.attributes.created,
            modified: attributes.modified,
            expires: old.attributes.expires,
            label: attributes.label
        )
    }
}
