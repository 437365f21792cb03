import Foundation

@testable import Lockbox
@_spi(Extensions) @testable import LockboxCore
@testable import LockboxStore

/// Copies and moves between keys.
extension HistoryThread {
    func copyObject(isMove: Bool) throws {
        let key = try randomKey()
        let newKey = try otherKey(than: key)
        let isLate = random.isOne(in: 4)
        let policy = randomPolicy(key, newKey)
        let date = HistoryTime.date(next(), isLate: isLate)
        let watched = WatchedItems(wrapped: items, key: key) { [log] in log.saw($0) }
        let lockbox = try Lockbox(keyPrefix: key.prefix, backend: watched, now: { date })
        let call = isMove ? "moveObject" : "copyObject"
        record("\(call) \(name(key)) \(name(newKey)) \(policy) \(isLate ? "late" : "early")") {
            do {
                if isMove {
                    try lockbox.moveObject(
                        forKey: key.key,
                        toKey: newKey.key,
                        toPrefix: newKey.prefix,
                        policy: policy
                    )
                } else {
                    try lockbox.copyObject(
                        forKey: key.key,
                        toKey: newKey.key,
                        toPrefix: newKey.prefix,
                        policy: policy
                    )
                }
                return "ok"
            } catch LockboxError.itemNotFound(let absent) {
                return absent == key.key ? "noSource" : "noTarget"
            } catch LockboxError.conflict {
                return "conflict"
            }
        }
    }

    private func otherKey(than key: ItemKey) throws -> ItemKey {
        while true {
            let other = try randomKey()
            if other != key { return other }
        }
    }

    /// An update of an item that is not there names only its key, and not its prefix: it must be another than the old one's.
    private func randomPolicy(_ key: ItemKey, _ newKey: ItemKey) -> WritePolicy {
        let policy = random.element([WritePolicy.addOnly, .addOnly, .replace, .updateOnly])
        return policy == .updateOnly && key.key == newKey.key ? .replace : policy
    }
}

/// Tells which item a copy or a move has read.
private struct WatchedItems: WrappingBackend {
    let wrapped: any LockboxBackend
    let key: ItemKey
    let saw: @Sendable (String) -> Void

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        let item = try wrapped.item(for: key, now: now)
        if key == self.key { try note(item) }
        return item
    }

    func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        guard let engine = wrapped as? SealedBackend else {
            return try moveInTwoSteps(key, to: newKey, policy: policy, now: now)
        }
        let writer = engine.writer
        try writer.put(key, under: newKey, policy: policy, now: now, isMove: true, willPut: note)
    }

    func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        guard let engine = wrapped as? SealedBackend else {
            try note(wrapped.item(for: key, now: now))
            return try wrapped.copy(key, to: newKey, policy: policy, now: now)
        }
        let writer = engine.writer
        try writer.put(key, under: newKey, policy: policy, now: now, isMove: false, willPut: note)
    }

    private func note(_ item: StoredItem?) throws {
        saw(try item.map { "\(try HistoryState($0))" } ?? "absent")
    }
}
