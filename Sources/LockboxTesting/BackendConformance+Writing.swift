import LockboxCore
import LockboxPlatform

/// Policies, batches and moves.
extension BackendConformance {
    static let replaceKeepsCreated = BackendConformance("a replace keeps the creation date") { subject in
        let key = try subject.key("key")
        let later = Subject.now + 10
        try subject.write(subject.item(key, "old"))
        try subject.write(subject.item(key, "new", at: later))
        let attributes = try subject.backend.attributes(for: key, now: later)
        try subject.expect(
            attributes?.created == Subject.now,
            "after a replace, the creation date is \(text(attributes?.created)), not \(Subject.now)"
        )
        try subject.expect(
            attributes?.modified == later,
            "after a replace, the modification date is \(text(attributes?.modified)), not \(later)"
        )
        try subject.expect(key, is: "new", after: "a replace")
    }

    static let addOnly = BackendConformance("addOnly fails if the item exists") { subject in
        let key = try subject.key("key")
        try subject.write(subject.item(key, "first"), .addOnly)
        try subject.expectError(.duplicateItem(key: "key"), from: "a write of an existing item with .addOnly")
        {
            try subject.write(subject.item(key, "second"), .addOnly)
        }
        try subject.expect(key, is: "first", after: "the write that was refused")
    }

    static let updateOnly = BackendConformance("updateOnly fails if the item does not exist") { subject in
        let key = try subject.key("key")
        try subject.expectError(.itemNotFound(key: "key"), from: "a write of an absent item with .updateOnly")
        {
            try subject.write(subject.item(key), .updateOnly)
        }
        try subject.expect(key, is: nil, after: "the write that was refused")
        try subject.write(subject.item(key, "first"))
        try subject.write(subject.item(key, "second"), .updateOnly)
        try subject.expect(key, is: "second", after: "a write of an existing item with .updateOnly")
    }

    static let failedWrite = BackendConformance("a failed write changes nothing") { subject in
        let item = try subject.item(subject.key("key"))
        try subject.write(item)
        let other = try subject.item(item.key, "other", at: Subject.now + 1, accessibility: .always)
        try? subject.write(other, .addOnly)
        try subject.expect(item, after: "a write that was refused")
    }

    static let batch = BackendConformance("a batch writes and removes many items") { subject in
        for name in ["replaced", "removed", "removed, if readable", "updated"] {
            try subject.write(subject.item(subject.key(name), "old"))
        }
        func write(_ name: String, _ policy: WritePolicy = .replace) throws -> ItemOperation {
            let value = try ArchivedValue(data: Data("new".utf8), format: .data)
            return .write(
                ItemChanges(value: value, options: WriteOptions(policy: policy), modified: Subject.now),
                to: try subject.key(name)
            )
        }
        let names = (0..<300).map { "item \($0)" }
        try subject.backend.apply(
            names.map { try write($0, .addOnly) } + [
                write("replaced"), write("updated", .updateOnly), .remove(subject.key("removed")),
                .remove(subject.key("missing")),
                .removeReadable(subject.key("removed, if readable"), now: Subject.now),
                .removeReadable(subject.key("missing, if readable"), now: Subject.now),
            ]
        )
        try subject.expectKeys(Set(names + ["replaced", "updated"]), after: "a batch")
        for name in names + ["replaced", "updated"] {
            try subject.expect(subject.key(name), is: "new", after: "a batch")
        }
        try subject.expectError(.duplicateItem(key: "item 0"), from: "a batch that adds an existing item") {
            try subject.backend.apply([write("item 0", .addOnly)])
        }
        try subject.expectError(.itemNotFound(key: "missing"), from: "a batch that updates an absent item") {
            try subject.backend.apply([write("missing", .updateOnly)])
        }
        try subject.expectError(.invalidKey, from: "a batch with two operations for one key") {
            try subject.backend.apply([write("twice"), write("twice")])
        }
        try subject.expect(subject.key("twice"), is: nil, after: "the batch that was refused")
        try subject.backend.apply([])
    }

    static let moving = BackendConformance("a move keeps the value and all attributes, and loses nothing") {
        subject in
        let (old, new) = (try subject.key("old"), try subject.key("new", prefix: "\(Subject.prefix).other"))
        let item = try StoredItem(
            key: old,
            value: ArchivedValue(data: Data("value".utf8), format: .json),
            accessibility: .afterFirstUnlock,
            modified: Subject.now,
            expires: Subject.now + 60,
            label: "label",
            comment: "comment",
            searchable: ["name": "text"]
        )
        func move(
            _ key: ItemKey,
            _ newKey: ItemKey,
            _ policy: WritePolicy = .addOnly,
            at now: Date = Subject.now
        ) throws {
            try subject.backend.move(key, to: newKey, policy: policy, now: now)
        }
        try subject.write(item)
        try move(old, new)
        try subject.expect(old, is: nil, at: nil, after: "a move")
        try subject.expect(item.renamed(to: new), at: nil, after: "a move")
        try subject.expectError(.itemNotFound(key: "old"), from: "a move of an absent item") {
            try move(old, new, .replace)
        }

        try subject.write(subject.item(old, "other"))
        try subject.expectError(.duplicateItem(key: "new"), from: "a move with .addOnly to an existing item")
        {
            try move(old, new)
        }
        try subject.expectError(
            .itemNotFound(key: "absent"),
            from: "a move with .updateOnly to an absent item"
        ) {
            try move(old, subject.key("absent"), .updateOnly)
        }
        try subject.expect(old, is: "other", after: "a move that was refused")
        try subject.expect(new, is: "value", after: "a move that was refused")
        try move(old, old)
        try subject.expect(old, is: "other", after: "a move of an item to its own key")
        try move(old, new, .updateOnly)
        try subject.expect(old, is: nil, after: "a move with .updateOnly")
        try subject.expect(new, is: "other", after: "a move with .updateOnly")

        // An expired item counts as absent, at either key.
        let late = Subject.now + 61
        try subject.write(item)
        try subject.expectError(.itemNotFound(key: "old"), from: "a move of an expired item") {
            try move(old, new, .replace, at: late)
        }
        try move(new, old, at: late)
        try subject.expect(old, is: "other", at: late, after: "a move to the key of an expired item")
        try subject.expect(new, is: nil, after: "a move to the key of an expired item")
    }
}

/// Moves and copies beside other writers.
extension BackendConformance {
    static let oppositeMoves = BackendConformance("moves of one item in opposite directions lose nothing") {
        subject in
        let keys = [try subject.key("one"), try subject.key("two", prefix: "\(Subject.prefix).other")]
        try subject.write(subject.item(keys[0]))
        try concurrently(2) { thread in
            for _ in 0..<100 {
                let (old, new) = (keys[thread], keys[1 - thread])
                // Refused where the other one has come first.
                do { try subject.backend.move(old, to: new, policy: .replace, now: Subject.now) } catch {
                    usleep(1000)
                }
            }
        }
        let found = try keys.filter { try subject.text($0) != nil }
        try subject.expect(
            !found.isEmpty,
            "an item that two threads moved, each from where the other moved it to, is under neither key"
        )
    }

    static let copying = BackendConformance("a copy has all attributes, and brings nothing back") { subject in
        let (key, copy) = (try subject.key("key"), try subject.key("copy"))
        let item = try subject.item(key, expires: Subject.now + 60)
        try subject.write(item)
        try subject.backend.copy(key, to: copy, policy: .addOnly, now: Subject.now)
        try subject.expect(item, after: "a copy")
        try subject.expect(item.renamed(to: copy), after: "a copy")
        try subject.write(subject.item(key, "other"))
        try subject.expectError(.duplicateItem(key: "copy"), from: "a copy with .addOnly to an existing item")
        {
            try subject.backend.copy(key, to: copy, policy: .addOnly, now: Subject.now)
        }
        try subject.backend.copy(key, to: copy, policy: .replace, now: Subject.now)
        try subject.expect(copy, is: "other", after: "a copy with .replace")
        for _ in 0..<60 {
            try subject.write(subject.item(key))
            try concurrently(2) { thread in
                if thread == 1 { return try subject.backend.removeAll(prefix: Subject.prefix) }
                try? subject.backend.copy(key, to: copy, policy: .replace, now: Subject.now)
            }
            try subject.expectKeys([], after: "removeAll(prefix:) beside a copy of an item with this prefix")
        }
    }
}

/// Updates, and other calls at the same time.
extension BackendConformance {
    static let update = BackendConformance("an update creates, replaces or removes an item atomically") {
        subject in
        let key = try subject.key("key")
        let item = try subject.item(key, "first")
        func update(at now: Date = Subject.now, _ change: (StoredItem?) throws -> StoredItem?) throws {
            try subject.backend.update(key, now: now, change)
        }
        try update { old in
            try subject.expect(old == nil, "update gave its closure an item that does not exist")
            return item
        }
        try subject.expect(item, after: "an update that creates the item")
        try subject.expectRethrow(from: "update") { refuse in
            try update { _ in
                try refuse()
                return nil
            }
        }
        try subject.expect(item, after: "an update whose closure threw")
        let next = try subject.item(key, "second", at: Subject.now + 1, expires: Subject.now + 60)
        try update { old in
            try subject.expect(old == item, "update gave its closure \(text(old)), not \(item)")
            return next
        }
        try subject.expect(next, after: "an update that replaces the item")
        try update(at: Subject.now + 60) { old in
            try subject.expect(old == nil, "update gave its closure an expired item")
            return next
        }
        try update { _ in nil }
        try subject.expect(key, is: nil, after: "an update that removes the item")
        try update { _ in nil }
    }

    static let updateAcrossPrefixes = BackendConformance("an update may change items of other prefixes") {
        subject in
        let key = try subject.key("key")
        let other = try subject.key("key", prefix: "\(Subject.prefix).other")
        try subject.write(subject.item(key, "old"))
        try subject.backend.update(key, now: Subject.now) { old in
            try subject.reenter("a call for another prefix in the closure of an update") {
                try subject.write(subject.item(other, "written meanwhile"))
                try subject.expect(
                    other,
                    is: "written meanwhile",
                    after: "a write in the closure of an update"
                )
                try subject.backend.update(other, now: Subject.now) { _ in
                    try subject.item(other, "updated meanwhile")
                }
            }
            return try subject.item(key, "new")
        }
        try subject.expect(key, is: "new", after: "an update whose closure changes another item")
        try subject.expect(other, is: "updated meanwhile", after: "an update in the closure of another")
    }

    static let updateIsOneStep = BackendConformance(
        "no other call takes effect between an update's read and its write"
    ) { subject in
        try subject.interruptUpdate("an update", expecting: ["0ab", "0ba"]) { key in
            try subject.append("b", to: key)
        }
        try subject.interruptUpdate("a write", expecting: ["b", "ba"]) { key in
            try subject.write(subject.item(key, "b"))
        }
        try subject.interruptUpdate("a removal", expecting: [nil, "a"]) { key in
            try subject.backend.remove(key)
        }
    }

    static let manyThreads = BackendConformance("concurrent calls lose no writes") { subject in
        let (shared, counter) = (try subject.key("shared"), try subject.key("counter"))
        try concurrently(8) { thread in
            for round in 0..<10 {
                try subject.write(subject.item(shared, "thread \(thread)"))
                try subject.write(subject.item(subject.key("own \(thread)"), "round \(round)"))
                try subject.expect(
                    subject.text(shared) != nil,
                    "value(for:now:) returned nil for an item that other threads replace"
                )
            }
        }
        let found = try subject.text(shared)
        try subject.expect(
            found?.hasPrefix("thread ") == true,
            "an item that eight threads wrote has the value \(quoted(found)) of none of them"
        )
        for thread in 0..<8 {
            try subject.expect(
                subject.key("own \(thread)"),
                is: "round 9",
                after: "ten writes by each of eight threads"
            )
        }
        try subject.write(subject.item(counter, "0"))
        try concurrently(8) { _ in
            try subject.backend.update(counter, now: Subject.now) { old in
                let count = old.flatMap { Int(String(decoding: $0.value.data, as: UTF8.self)) } ?? 0
                return try subject.item(counter, "\(count + 1)")
            }
        }
        try subject.expect(counter, is: "8", after: "eight concurrent updates that each add one")
        let added = Protected(0)
        try concurrently(8) { thread in
            do {
                try subject.write(subject.item(subject.key("contested"), "thread \(thread)"), .addOnly)
                added.withLock { $0 += 1 }
            } catch let error as LockboxError where error.code == .duplicateItem {}
        }
        let count = added.withLock { $0 }
        try subject.expect(
            count == 1,
            "\(count) of eight concurrent writes of one key with .addOnly succeeded"
        )
    }
}
