import LockboxCore
import LockboxPlatform

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
