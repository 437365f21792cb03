import LockboxCore
import LockboxPlatform

/// Keys, prefixes and lists.
extension BackendConformance {
    static let removal = BackendConformance("removing an item leaves the others") { subject in
        let (gone, kept) = (try subject.key("gone"), try subject.key("kept"))
        try subject.write(subject.item(gone))
        try subject.write(subject.item(kept))
        try subject.backend.remove(gone)
        try subject.backend.remove(gone)
        try subject.expect(gone, is: nil, after: "remove(_:)")
        try subject.expectKeys(["kept"], after: "remove(_:)")
        try subject.write(subject.item(gone, "again"), .addOnly)
        try subject.expect(gone, is: "again", after: "a write of an item that had been removed")
    }

    static let removeAll = BackendConformance("removeAll removes only items with its prefix") { subject in
        for key in ["one", "two"] {
            try subject.write(subject.item(subject.key(key), expires: Subject.now + 1))
        }
        let stranger = try subject.key("one", prefix: "com.example.stranger")
        try subject.write(subject.item(stranger))
        try subject.backend.removeAll(prefix: Subject.prefix)
        try subject.expectKeys([], at: nil, after: "removeAll(prefix:)")
        try subject.expect(stranger, is: "value", after: "removeAll(prefix:) with another prefix")
        try expectPrefixes(["com.example.stranger"], subject, after: "removeAll(prefix:)")
    }

    private static func expectPrefixes(_ expected: Set<String>, _ subject: Subject, after call: String) throws
    {
        let found = try subject.backend.prefixes()
        try subject.expect(
            found == expected,
            "after \(call), prefixes() returned \(found.sorted()), not \(expected.sorted())"
        )
        let readable = try subject.backend.prefixes { throw $0.error }
        try subject.expect(
            readable == expected,
            "after \(call), prefixes(unreadable:) returned \(readable.sorted()), not \(expected.sorted())"
        )
    }

    static let keyEquality = BackendConformance("canonically equivalent keys are the same key") { subject in
        let composed = try subject.key("Caf\u{E9}")
        let decomposed = try subject.key("Cafe\u{301}")
        try subject.write(subject.item(composed, "one"))
        try subject.expect(
            decomposed,
            is: "one",
            after: "a write with the key composed, and a read with it decomposed,"
        )
        try subject.write(subject.item(decomposed, "two"))
        try subject.expect(
            composed,
            is: "two",
            after: "a write with the key decomposed, and a read with it composed,"
        )
        try subject.expectKeys(["Caf\u{E9}"], after: "writes with both spellings")
    }

    static let oddKeys = BackendConformance("every non-empty key is valid and distinct") { subject in
        let odd = [
            " ", ".", "..", "/", "../x", "a/b", "a", "A", "\0", "a\0", "\n", "key", "Key", "key ", ":", "%",
            "%2F", "\u{FEFF}",
            "🔑", "👩‍👩‍👧", "\u{202E}", "CON", "lock", String(repeating: "k", count: ItemKey.maximumLength),
        ]
        for key in odd { try subject.write(subject.item(subject.key(key), "of \(key)")) }
        for key in odd {
            let found = try subject.text(subject.key(key))
            try subject.expect(
                found == "of \(key)",
                "the item with the key \(String(reflecting: key)) has the value \(quoted(found))"
            )
        }
        try subject.expectKeys(Set(odd), after: "writes")
    }

    static let prefixes = BackendConformance("prefixes are independent of each other") { subject in
        let names = [("a", "b.c"), ("a.b", "c"), ("a.b.c", "c"), ("A", "b.c"), ("ab", "c")]
        for (prefix, key) in names {
            try subject.write(subject.item(subject.key(key, prefix: prefix), "\(prefix) \(key)"))
        }
        for (prefix, key) in names {
            let found = try subject.text(subject.key(key, prefix: prefix))
            try subject.expect(
                found == "\(prefix) \(key)",
                "the item with the prefix \(prefix) and the key \(key) has the value \(quoted(found))"
            )
            try subject.expectKeys([key], prefix: prefix, after: "writes with several prefixes")
        }
        try expectPrefixes(Set(names.map(\.0)), subject, after: "writes with several prefixes")
    }

    static let reservedPrefixes = BackendConformance(
        "items with a reserved prefix are stored like others, and no list of prefixes has it"
    ) { subject in
        let backend = subject.backend
        let key = try ItemKey(storedPrefix: "\0conformance\0\(Subject.prefix)", key: "key")
        let expired = try ItemKey(storedPrefix: key.prefix, key: "expired")
        try subject.write(subject.item(subject.key("key"), "of another prefix"))
        // Lockbox's own records are written like this.
        let item = try subject.item(key, accessibility: .alwaysThisDeviceOnly)
        try subject.write(item)
        try subject.write(
            subject.item(expired, expires: Subject.now + 1, accessibility: .alwaysThisDeviceOnly)
        )
        try subject.expect(item, after: "a write with a reserved prefix")
        try expectPrefixes([Subject.prefix], subject, after: "a write with a reserved prefix")
        let listed = try backend.attributes(prefix: key.prefix, now: Subject.now)[key]
        try subject.expect(
            listed == item.attributes,
            "attributes(prefix:now:) with a reserved prefix returned \(text(listed)) for an item, not \(item.attributes)"
        )
        let count = try backend.removeExpired(prefix: key.prefix, now: Subject.now + 2)
        try subject.expect(
            count == 1,
            "removeExpired(prefix:now:) with a reserved prefix returned \(count), and one item had expired"
        )
        try backend.update(key, now: Subject.now) { _ in
            try subject.item(key, "new", accessibility: .alwaysThisDeviceOnly)
        }
        try subject.expect(key, is: "new", after: "an update with a reserved prefix")
        try backend.remove(key)
        try subject.expect(key, is: nil, after: "remove(_:) with a reserved prefix")
        try subject.expect(subject.key("key"), is: "of another prefix", after: "calls with a reserved prefix")
    }

    static let lists = BackendConformance("forEachItem gives every item of its prefix once") { subject in
        for (name, expires) in [("one", nil), ("two", nil), ("past", Subject.now)] {
            try subject.write(subject.item(subject.key(name), expires: expires))
        }
        try subject.write(subject.item(subject.key("stranger", prefix: "\(Subject.prefix).other")))
        func forEachItem(
            prefix: String = Subject.prefix,
            at now: Date? = Subject.now,
            _ body: (ItemKey, ItemAttributes) throws -> Void
        ) throws {
            try subject.backend.forEachItem(prefix: prefix, now: now, unreadable: { throw $0.error }, body)
        }
        for now in [Subject.now, nil] {
            var found: [ItemKey: ItemAttributes] = [:]
            try forEachItem(at: now) { key, attributes in
                let isNew = found.updateValue(attributes, forKey: key) == nil
                try subject.expect(isNew, "forEachItem gave the item \(key.key) twice")
            }
            let expected = try subject.backend.attributes(prefix: Subject.prefix, now: now)
            try subject.expect(
                found == expected,
                "forEachItem gave \(found), and attributes(prefix:now:) returned \(expected)"
            )
        }
        try subject.expectKeys(["one", "two"], after: "writes, one of them expired,")
        try subject.expectKeys(["one", "two", "past"], at: nil, after: "writes, one of them expired,")
        try forEachItem(prefix: "com.example.empty") { key, _ in
            throw subject.failure("forEachItem gave \(key) for a prefix without items")
        }
        try subject.expectRethrow(from: "forEachItem") { refuse in try forEachItem { _, _ in try refuse() } }
        try forEachItem { key, _ in
            try subject.reenter("a write in the closure of forEachItem") {
                try subject.write(subject.item(key, "written meanwhile"))
            }
        }
        for name in ["one", "two"] {
            try subject.expect(
                subject.key(name),
                is: "written meanwhile",
                after: "a write in the closure of forEachItem"
            )
        }
    }
}

extension BackendConformance {
    static let expiry = BackendConformance("an expired item reads as absent") { subject in
        let (backend, key) = (subject.backend, try subject.key("key"))
        let end = Subject.now + 60
        try subject.write(subject.item(key, expires: end))
        try subject.expect(
            key,
            is: "value",
            at: end - 0.001,
            after: "a write, a millisecond before the item expires"
        )
        for now in [end, end + 0.001, .distantFuture] {
            try subject.expect(
                backend.value(for: key, now: now) == nil,
                "value(for:now:) returned an expired value"
            )
            try subject.expect(
                backend.item(for: key, now: now) == nil,
                "item(for:now:) returned an expired item"
            )
            try subject.expect(
                backend.attributes(for: key, now: now) == nil,
                "attributes(for:now:) returned the attributes of an expired item"
            )
            try subject.expect(
                subject.keys(at: now).isEmpty,
                "attributes(prefix:now:) returned an expired item"
            )
            try subject.expectError(
                .itemNotFound(key: "key"),
                from: "setAccessibility(_:for:now:) of an expired item"
            ) {
                try backend.setAccessibility(.always, for: key, now: now)
            }
        }
    }

    static let expiryDestroysNothing = BackendConformance("a wrong clock destroys nothing") { subject in
        let key = try subject.key("key")
        try subject.write(subject.item(key, expires: Subject.now + 60))
        _ = try subject.text(key, at: .distantFuture)
        _ = try subject.backend.item(for: key, now: .distantFuture)
        _ = try subject.keys(at: .distantFuture)
        _ = try subject.backend.attributes(for: key, now: .distantFuture)
        try subject.expect(key, is: "value", after: "reads with a date after its expiry")
        let ancient = try subject.key("ancient")
        try subject.write(subject.item(ancient, expires: .distantPast))
        try subject.expect(ancient, is: "value", at: nil, after: "a write, read with no date,")
        let prefixes = try subject.backend.prefixes()
        try subject.expect(
            prefixes == [Subject.prefix],
            "prefixes() returned \(prefixes.sorted()), not the prefix of the expired items"
        )
    }

    static let policiesAndExpiry = BackendConformance("write policies treat an expired item as absent") {
        subject in
        let key = try subject.key("key")
        try subject.write(subject.item(key, expires: Subject.now + 60))
        let later = Subject.now + 60
        try subject.expectError(
            .itemNotFound(key: "key"),
            from: "a write of an expired item with .updateOnly"
        ) {
            try subject.write(subject.item(key, at: later), .updateOnly)
        }
        try subject.write(subject.item(key, "new", at: later), .addOnly)
        try subject.expect(key, is: "new", at: later, after: "a write of an expired item with .addOnly")
        let created = try subject.backend.attributes(for: key, now: later)?.created
        try subject.expect(
            created == later,
            "the new item has the creation date \(text(created)), not that of the write, \(later)"
        )
    }

    static let removeExpired = BackendConformance("removeExpired removes only expired items") { subject in
        for (name, expires) in [("past", Subject.now + 1), ("future", Subject.now + 100), ("never", nil)] {
            try subject.write(subject.item(subject.key(name), expires: expires))
        }
        let stranger = try subject.key("past", prefix: "com.example.stranger")
        try subject.write(subject.item(stranger, expires: Subject.now + 1))
        let call = "removeExpired(prefix:now:)"
        let count = try subject.backend.removeExpired(prefix: Subject.prefix, now: Subject.now + 10)
        try subject.expect(count == 1, "\(call) returned \(count), and one item had expired")
        try subject.expectKeys(["future", "never"], at: nil, after: call)
        try subject.expect(stranger, is: "value", after: "\(call) with another prefix")
    }
}
