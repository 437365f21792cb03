import LockboxCore
import LockboxPlatform

/// The treatment of items that cannot be read.
extension BackendConformance {
    static let damagedItems = BackendConformance("an item that cannot be read is neither absent nor lost") {
        subject in
        guard let damage = subject.damage else { return }
        let (backend, damaged, intact) = (
            subject.backend, try subject.key("damaged"), try subject.key("intact")
        )
        for key in [damaged, intact] { try subject.write(subject.item(key)) }
        try damage(backend, damaged)
        try expectUnreadable(damaged, subject, after: "damage")
        try expectUnreadable(damaged, subject, after: "a failed read")
        try subject.expect(intact, is: "value", after: "damage to another item")
        try expectNamed(damaged, beside: intact, subject)
        if let report = try LockboxError.ifSupported({ try backend.verify { _ in } }) {
            try subject.expect(!report.findings.isEmpty, "verify found no problem, and one item is damaged")
            try subject.expect(
                report.intactCount == 1,
                "verify counted \(report.intactCount) intact items, and there is one"
            )
        }
        try? subject.write(subject.item(damaged, "other"), .addOnly)
        try expectUnreadable(damaged, subject, after: "a write with .addOnly")
        try expectNotExpired(damaged, subject)
        try? backend.apply([.removeReadable(damaged, now: Subject.now)])
        try expectUnreadable(damaged, subject, after: "a batch with .removeReadable")
        try backend.remove(damaged)
        try subject.expect(damaged, is: nil, after: "remove(_:) of an item that cannot be read")
        try subject.expect(intact, is: "value", after: "remove(_:) of an item that cannot be read")
        try subject.write(subject.item(damaged))
        try damage(backend, damaged)
        guard (try? backend.removeAll(prefix: Subject.prefix)) != nil else { return }
        try subject.expectKeys([], at: nil, after: "removeAll(prefix:) with an item that cannot be read")
    }

    /// Its expiry is not known. The call names the item, or throws.
    private static func expectNotExpired(_ damaged: ItemKey, _ subject: Subject) throws {
        var named = 0
        let count = try? subject.backend.removeExpired(prefix: Subject.prefix, now: .distantFuture) { _ in
            named += 1
        }
        let call = "removeExpired(prefix:now:unreadable:)"
        try subject.expect(
            count == nil || count == 0 && named == 1,
            "\(call) returned \(text(count)) and named \(named) unreadable items; none had expired, and one is damaged"
        )
        try expectUnreadable(damaged, subject, after: call)
    }

    private static func expectUnreadable(_ key: ItemKey, _ subject: Subject, after call: String) throws {
        let found: StoredItem?
        do { found = try subject.backend.item(for: key, now: Subject.now) } catch let error as LockboxError {
            guard let location = try subject.backend.location(of: key) else { return }
            return try subject.expect(
                error.subject == .record(location),
                "item(for:now:) threw \(error), which is not about .record(\(String(reflecting: location)))"
            )
        }
        throw subject.failure("after \(call), item(for:now:) returned \(text(found)) and did not throw")
    }

    /// A list names the item, or throws.
    private static func expectNamed(_ damaged: ItemKey, beside intact: ItemKey, _ subject: Subject) throws {
        try subject.expectError(
            "an error",
            from: "attributes(prefix:now:) with a damaged item",
            where: { _ in true }
        ) {
            _ = try subject.keys()
        }
        var keys: Set<ItemKey> = []
        guard let unreadable = try? unreadableItems(subject, { keys.insert($0) }) else { return }
        try subject.expect(
            unreadable.count == 1 && unreadable.allSatisfy { $0.key == nil || $0.key == damaged },
            "forEachItem named \(unreadable) as unreadable, and one item is damaged: \(damaged)"
        )
        try subject.expect(
            keys == [intact],
            "forEachItem gave the items \(keys), and one is intact: \(intact)"
        )
    }

    private static func unreadableItems(_ subject: Subject, _ body: (ItemKey) -> Void = { _ in }) throws
        -> [UnreadableItem]
    {
        var unreadable: [UnreadableItem] = []
        try subject.backend.forEachItem(
            prefix: Subject.prefix,
            now: Subject.now,
            unreadable: { unreadable.append($0) },
            { key, _ in body(key) }
        )
        return unreadable
    }

    static let repair = BackendConformance("only an unreadable item is removed by its record, or set aside") {
        subject in
        let backend = subject.backend
        let (key, intact) = (try subject.key("damaged"), try subject.key("intact"))
        for key in [key, intact] { try subject.write(subject.item(key)) }
        try subject.expectError(
            .invalidKey,
            .notSupported,
            from: "remove(record:) of a record that no item can have"
        ) {
            try backend.remove(record: "")
        }
        try subject.expectError(
            .invalidKey,
            .notSupported,
            from: "quarantine(record:) of a record that no item can have"
        ) {
            try backend.quarantine(record: "")
        }
        try subject.expectKeys(["damaged", "intact"], after: "the removal of a record that no item can have")
        try expectRemoval(of: key, subject)
        try expectQuarantine(of: key, subject)
        try expectNoRepair(of: key, subject)
        try subject.expect(intact, is: "value", after: "the repair of another item")
    }

    private static func expectRemoval(of key: ItemKey, _ subject: Subject) throws {
        let backend = subject.backend
        guard let record = try recordOfDamaged(key, subject) else { return }
        guard try LockboxError.ifSupported({ try backend.remove(record: record) }) != nil else { return }
        try subject.expect(key, is: nil, after: "remove(record:)")
        try backend.remove(record: record)  // does nothing
    }

    private static func expectQuarantine(of key: ItemKey, _ subject: Subject) throws {
        let backend = subject.backend
        guard let record = try recordOfDamaged(key, subject) else { return }
        guard let location = try LockboxError.ifSupported({ try backend.quarantine(record: record) }) else {
            return
        }
        try subject.expect(!location.isEmpty, "quarantine(record:) did not say where the bytes are now")
        try subject.expect(key, is: nil, after: "quarantine(record:)")
        try subject.expectError(.missing, from: "quarantine(record:) of a record that has been set aside") {
            try backend.quarantine(record: record)
        }
    }

    /// Another writer has replaced it since it was listed.
    private static func expectNoRepair(of key: ItemKey, _ subject: Subject) throws {
        let backend = subject.backend
        guard let record = try recordOfDamaged(key, subject) else { return }
        try backend.remove(key)
        try subject.write(subject.item(key, "new"))
        _ = try LockboxError.ifSupported { try backend.remove(record: record) }
        try subject.expect(key, is: "new", after: "remove(record:) of an item that can be read again")
        try subject.expectError(
            .conflict,
            .missing,
            .notSupported,
            from: "quarantine(record:) of an item that can be read again"
        ) { try backend.quarantine(record: record) }
        try subject.expect(key, is: "new", after: "quarantine(record:) of an item that can be read again")
    }

    private static func recordOfDamaged(_ key: ItemKey, _ subject: Subject) throws -> String? {
        guard let damage = subject.damage else { return nil }
        try subject.backend.remove(key)
        try subject.write(subject.item(key))
        try damage(subject.backend, key)
        let unreadable = try unreadableItems(subject)
        guard unreadable.count == 1 else {
            throw subject.failure(
                "forEachItem named \(unreadable) as unreadable, and one item is damaged: \(key)"
            )
        }
        return unreadable[0].record
    }
}
