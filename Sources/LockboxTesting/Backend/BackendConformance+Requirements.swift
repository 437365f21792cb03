import LockboxCore
import LockboxPlatform

extension BackendConformance {
    /// All requirements.
    public static let all: [BackendConformance] = [
        absentIsNil, roundTrip, sizes, tooLarge, wholeItem, replaceKeepsCreated, addOnly, updateOnly,
        failedWrite,
        expiry,
        expiryDestroysNothing, policiesAndExpiry, removeExpired, removal, keyEquality, oddKeys, prefixes,
        removeAll,
        classes, changeOfClass, keepsWhatIsNotNamed, expiryBelongsToTheValue, changesOfAttributes, searchable,
        severalValues, batch, moving, update, updateAcrossPrefixes, updateIsOneStep, manyThreads, lockState,
        verification,
        changes,
    ]

    private static let absentIsNil = BackendConformance("an absent item is nil and can be removed") {
        backend in
        let key = try backend.key("missing")
        try backend.expect(backend.text(key) == nil, "a value")
        try backend.expect(backend.backend.item(for: key, now: Subject.now) == nil, "an item")
        try backend.expect(backend.backend.attributes(for: key, now: Subject.now) == nil, "attributes")
        try backend.expect(backend.keys().isEmpty, "keys")
        try backend.expect(backend.backend.prefixes().isEmpty, "prefixes")
        try backend.backend.remove(key)
        try backend.backend.removeAll(prefix: Subject.prefix)
        try backend.expect(
            backend.backend.removeExpired(prefix: Subject.prefix, now: Subject.now) == 0,
            "expired items"
        )
    }

    private static let roundTrip = BackendConformance("an item is read exactly as it was written") {
        backend in
        let item = try StoredItem(
            key: backend.key("key"),
            value: ArchivedValue(data: Data((0...255).map { UInt8($0) }), format: ValueFormat(rawValue: 200)),
            accessibility: .afterFirstUnlock,
            created: Date(timeIntervalSinceReferenceDate: -1e9 / 3),
            modified: Date(timeIntervalSinceReferenceDate: 0.1 + 0.2),
            expires: Date(timeIntervalSinceReferenceDate: 1e9 / 3),
            label: "Läbel 🔑",
            comment: ""
        )
        try backend.write(item)
        try backend.expect(
            backend.backend.value(for: item.key, now: Subject.now - 1e9) == item.value,
            "another value"
        )
        let attributes = try backend.backend.attributes(for: item.key, now: Subject.now - 1e9)
        try backend.expect(
            attributes == item.attributes,
            "other attributes: \(String(describing: attributes))"
        )
        let all = try backend.backend.attributes(prefix: Subject.prefix, now: Subject.now - 1e9)
        try backend.expect(all == [item.key: item.attributes], "another list: \(all)")
    }

    private static let sizes = BackendConformance("values of every size up to the limit are stored") {
        backend in
        let key = try backend.key("key")
        let limit = backend.backend.maximumValueSize
        try backend.expect((65_537...ArchivedValue.maximumSize).contains(limit), "a limit of \(limit) bytes")
        for size in [0, 1, 255, 256, 257, 4096, 65_537, limit] {
            let value = try ArchivedValue(
                data: Data(repeating: UInt8(size & 0xFF), count: size),
                format: .data
            )
            try backend.write(StoredItem(key: key, value: value, modified: Subject.now))
            try backend.expect(
                backend.backend.value(for: key, now: Subject.now) == value,
                "another value of \(size) bytes"
            )
            try backend.expect(
                backend.backend.attributes(for: key, now: Subject.now)?.size == size,
                "another size than \(size)"
            )
        }
    }

    private static let tooLarge = BackendConformance("a value that is too large for the backend is refused") {
        backend in
        let key = try backend.key("key")
        try backend.write(backend.item(key, "old"))
        let size = ArchivedValue.maximumSize
        let limit = backend.backend.maximumValueSize
        if limit == size { return }
        let large = try ArchivedValue(data: Data(count: size), format: .data)
        try backend.expectError(.valueTooLarge(size: size, limit: limit)) {
            try backend.write(StoredItem(key: key, value: large, modified: Subject.now))
        }
        try backend.expect(backend.text(key) == "old", "the old value has changed")
    }

    private static let wholeItem = BackendConformance("an item is read with value and attributes") {
        backend in
        let item = try backend.item(backend.key("key"))
        try backend.write(item)
        try backend.expect(backend.backend.item(for: item.key, now: Subject.now) == item, "another item")
    }

    private static let replaceKeepsCreated = BackendConformance("a replace keeps the creation date") {
        backend in
        let key = try backend.key("key")
        try backend.write(backend.item(key, "old"))
        try backend.write(backend.item(key, "new", at: Subject.now + 10))
        let attributes = try backend.backend.attributes(for: key, now: Subject.now + 10)
        try backend.expect(attributes?.created == Subject.now, "another creation date")
        try backend.expect(attributes?.modified == Subject.now + 10, "another modification date")
        try backend.expect(backend.text(key) == "new", "another value")
    }

    private static let addOnly = BackendConformance("addOnly fails if the item exists") { backend in
        let key = try backend.key("key")
        try backend.write(backend.item(key, "first"), .addOnly)
        try backend.expectError(.duplicateItem(key: "key")) {
            try backend.write(backend.item(key, "second"), .addOnly)
        }
        try backend.expect(backend.text(key) == "first", "the value is not the first")
    }

    private static let updateOnly = BackendConformance("updateOnly fails if the item does not exist") {
        backend in
        let key = try backend.key("key")
        try backend.expectError(.itemNotFound(key: "key")) {
            try backend.write(backend.item(key), .updateOnly)
        }
        try backend.expect(backend.text(key) == nil, "it was stored")
        try backend.write(backend.item(key, "first"))
        try backend.write(backend.item(key, "second"), .updateOnly)
        try backend.expect(backend.text(key) == "second", "the value is not the second")
    }

    private static let failedWrite = BackendConformance("a failed write changes nothing") { backend in
        let item = try backend.item(backend.key("key"))
        try backend.write(item)
        let other = try backend.item(item.key, "other", at: Subject.now + 1, accessibility: .always)
        try? backend.write(other, .addOnly)
        try backend.expect(backend.backend.item(for: item.key, now: Subject.now) == item, "the item changed")
    }

    // MARK: Expiry

    private static let expiry = BackendConformance("an expired item reads as absent") { backend in
        let key = try backend.key("key")
        let end = Subject.now + 60
        try backend.write(backend.item(key, expires: end))
        try backend.expect(backend.text(key, at: end - 0.001) == "value", "absent too early")
        for now in [end, end + 0.001, .distantFuture] {
            try backend.expect(backend.text(key, at: now) == nil, "a value")
            try backend.expect(backend.backend.item(for: key, now: now) == nil, "an item")
            try backend.expect(backend.backend.attributes(for: key, now: now) == nil, "attributes")
            try backend.expect(backend.keys(at: now).isEmpty, "keys")
            try backend.expectError(.itemNotFound(key: key.key)) {
                try backend.backend.setAccessibility(.always, for: key, now: now)
            }
        }
    }

    private static let expiryDestroysNothing = BackendConformance("a wrong clock destroys nothing") {
        backend in
        let key = try backend.key("key")
        try backend.write(backend.item(key, expires: Subject.now + 60))
        _ = try backend.text(key, at: .distantFuture)
        _ = try backend.keys(at: .distantFuture)
        _ = try backend.backend.attributes(for: key, now: .distantFuture)
        try backend.expect(backend.text(key) == "value", "the item is missing")
        let ancient = try backend.key("ancient")
        try backend.write(backend.item(ancient, expires: .distantPast))
        try backend.expect(
            backend.text(ancient, at: nil) == "value",
            "not every item is seen"
        )
        try backend.expect(backend.backend.prefixes() == [Subject.prefix], "its prefix is missing")
    }

    private static let policiesAndExpiry = BackendConformance(
        "write policies treat an expired item as absent"
    ) {
        backend in
        let key = try backend.key("key")
        try backend.write(backend.item(key, expires: Subject.now + 60))
        let later = Subject.now + 60
        try backend.expectError(.itemNotFound(key: key.key)) {
            try backend.write(backend.item(key, at: later), .updateOnly)
        }
        try backend.write(backend.item(key, "new", at: later), .addOnly)
        try backend.expect(backend.text(key, at: later) == "new", "not overwritten")
        let created = try backend.backend.attributes(for: key, now: later)?.created
        try backend.expect(created == later, "the creation date of the expired item")
    }

    private static let removeExpired = BackendConformance(
        "removeExpired removes only expired items"
    ) {
        backend in
        for (name, expires) in [("past", Subject.now + 1), ("future", Subject.now + 100), ("never", nil)] {
            try backend.write(backend.item(backend.key(name), expires: expires))
        }
        let stranger = try backend.key("past", prefix: "com.example.stranger")
        try backend.write(backend.item(stranger, expires: Subject.now + 1))
        let now = Subject.now + 10
        try backend.expect(
            backend.backend.removeExpired(prefix: Subject.prefix, now: now) == 1,
            "another number than 1"
        )
        try backend.expect(backend.keys(at: .distantPast) == ["future", "never"], "other items are left")
        try backend.expect(backend.text(stranger) == "value", "an item with another prefix is missing")
    }

    // MARK: Removal, keys, prefixes

    private static let removal = BackendConformance("removing an item leaves the others") {
        backend in
        let (gone, kept) = (try backend.key("gone"), try backend.key("kept"))
        try backend.write(backend.item(gone))
        try backend.write(backend.item(kept))
        try backend.backend.remove(gone)
        try backend.backend.remove(gone)
        try backend.expect(backend.text(gone) == nil, "still there")
        try backend.expect(backend.keys() == ["kept"], "other keys")
        try backend.write(backend.item(gone, "again"), .addOnly)
        try backend.expect(backend.text(gone) == "again", "cannot be written again")
    }

    private static let keyEquality = BackendConformance("canonically equivalent keys are the same key") {
        backend in
        let composed = try backend.key("Caf\u{E9}")
        let decomposed = try backend.key("Cafe\u{301}")
        try backend.write(backend.item(composed, "one"))
        try backend.expect(backend.text(decomposed) == "one", "not found under its other spelling")
        try backend.write(backend.item(decomposed, "two"))
        try backend.expect(backend.text(composed) == "two", "the two are kept apart")
        try backend.expect(backend.keys().count == 1, "more than one key")
    }

    private static let oddKeys = BackendConformance("every non-empty key is valid and distinct") { backend in
        let odd = [
            " ", ".", "..", "/", "../x", "a/b", "a", "A", "\0", "a\0", "\n", "key", "Key", "key ", ":", "%",
            "%2F", "\u{FEFF}",
            "🔑", "👩‍👩‍👧", "\u{202E}", "CON", "lock", String(repeating: "k", count: ItemKey.maximumLength),
        ]
        for key in odd { try backend.write(backend.item(backend.key(key), "of \(key)")) }
        for key in odd {
            try backend.expect(
                backend.text(backend.key(key)) == "of \(key)",
                "not the value of \(String(reflecting: key))"
            )
        }
        try backend.expect(backend.keys() == Set(odd), "other keys in the list")
    }

    private static let prefixes = BackendConformance("prefixes are independent of each other") { backend in
        let places = [("a", "b.c"), ("a.b", "c"), ("a.b.c", "c"), ("A", "b.c"), ("ab", "c")]
        for (prefix, key) in places {
            try backend.write(backend.item(backend.key(key, prefix: prefix), "\(prefix) \(key)"))
        }
        for (prefix, key) in places {
            try backend.expect(
                backend.text(backend.key(key, prefix: prefix)) == "\(prefix) \(key)",
                "another's value"
            )
            try backend.expect(backend.keys(prefix: prefix) == [key], "another's keys")
        }
        try backend.expect(backend.backend.prefixes() == Set(places.map(\.0)), "other prefixes")
    }

    private static let removeAll = BackendConformance("removeAll removes only items with its prefix") {
        backend in
        for key in ["one", "two"] {
            try backend.write(backend.item(backend.key(key), expires: Subject.now + 1))
        }
        let stranger = try backend.key("one", prefix: "com.example.stranger")
        try backend.write(backend.item(stranger))
        try backend.backend.removeAll(prefix: Subject.prefix)
        try backend.expect(backend.keys(at: .distantPast).isEmpty, "keys are left")
        try backend.expect(backend.text(stranger) == "value", "an item with another prefix is missing")
        try backend.expect(backend.backend.prefixes() == ["com.example.stranger"], "other prefixes are left")
    }

    // MARK: Classes

    private static let classes = BackendConformance(
        "the class is stored, or refused without a passcode or on a shared storage"
    ) {
        backend in
        for accessibility in Accessibility.allCases {
            let key = try backend.key(accessibility.rawValue)
            do {
                try backend.write(backend.item(key, accessibility: accessibility))
            } catch let error as LockboxError where isRefusal(error, of: accessibility) {
                try backend.expect(backend.text(key) == nil, "refused, and stored")
                continue
            }
            let found = try backend.backend.attributes(for: key, now: Subject.now)?.accessibility
            try backend.expect(found == accessibility, "\(String(describing: found)) for \(accessibility)")
        }
    }

    /// Whether a backend may refuse the class so.
    private static func isRefusal(_ error: LockboxError, of accessibility: Accessibility) -> Bool {
        switch error.code {
        case .passcodeNotSet: accessibility == .whenPasscodeSetThisDeviceOnly
        case .notSupported: accessibility.isThisDeviceOnly
        default: false
        }
    }

    private static let changeOfClass = BackendConformance("a change of class changes only the class") {
        backend in
        let item = try backend.item(backend.key("key"), expires: Subject.now + 1000)
        try backend.write(item)
        for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
            do {
                try backend.backend.setAccessibility(accessibility, for: item.key, now: Subject.now + 5)
            } catch let error as LockboxError where isRefusal(error, of: accessibility) {
                continue
            }
            let found = try backend.backend.item(for: item.key, now: Subject.now + 5)
            let expected = try StoredItem(
                key: item.key,
                value: item.value,
                accessibility: accessibility,
                created: Subject.now,
                modified: Subject.now + 5,
                expires: Subject.now + 1000
            )
            try backend.expect(found == expected, "another item: \(String(describing: found))")
        }
        try backend.expectError(.itemNotFound(key: "missing")) {
            try backend.backend.setAccessibility(.always, for: backend.key("missing"), now: Subject.now)
        }
    }

    private static let updateAcrossPrefixes = BackendConformance(
        "an update may change items of other prefixes"
    ) { backend in
        let key = try backend.key("key")
        let other = try backend.key("key", prefix: "\(Subject.prefix).other")
        try backend.write(backend.item(key, "old"))
        try backend.backend.update(key, now: Subject.now) { old in
            try backend.write(backend.item(other, "written meanwhile"))
            try backend.expect(backend.text(other) == "written meanwhile", "not written")
            try backend.backend.update(other, now: Subject.now) { _ in
                try backend.item(other, "updated meanwhile")
            }
            return try backend.item(key, "new")
        }
        try backend.expect(backend.text(key) == "new", "the update is lost")
        try backend.expect(backend.text(other) == "updated meanwhile", "what was written meanwhile is lost")
    }

    private static let update = BackendConformance(
        "an update creates, replaces or removes an item atomically"
    ) { backend in
        let key = try backend.key("key")
        let item = try backend.item(key, "first")
        try backend.backend.update(key, now: Subject.now) { old in
            try backend.expect(old == nil, "an item that does not exist")
            return item
        }
        try backend.expect(backend.backend.item(for: key, now: Subject.now) == item, "not made")
        struct Refusal: Error {}
        do {
            try backend.backend.update(key, now: Subject.now) { _ in throw Refusal() }
            try backend.expect(false, "the error was not rethrown")
        } catch is Refusal {}
        try backend.expect(
            backend.backend.item(for: key, now: Subject.now) == item,
            "changed by a refused update"
        )
        let next = try backend.item(key, "second", at: Subject.now + 1, expires: Subject.now + 60)
        try backend.backend.update(key, now: Subject.now) { old in
            try backend.expect(old == item, "another item")
            return next
        }
        try backend.expect(backend.backend.item(for: key, now: Subject.now) == next, "not replaced")
        try backend.backend.update(key, now: Subject.now + 60) { old in
            try backend.expect(old == nil, "an expired item")
            return next
        }
        try backend.backend.update(key, now: Subject.now) { _ in nil }
        try backend.expect(backend.text(key) == nil, "not removed")
        try backend.backend.update(key, now: Subject.now) { _ in nil }
    }
}
