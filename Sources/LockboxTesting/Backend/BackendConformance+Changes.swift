import LockboxCore
import LockboxPlatform

/// What a write does not name stays as it is.
extension BackendConformance {
    private static func fullItem(_ backend: Subject) throws -> StoredItem {
        try StoredItem(
            key: backend.key("key"),
            value: ArchivedValue(data: Data("old".utf8), format: .data),
            accessibility: .afterFirstUnlock,
            modified: Subject.now,
            expires: Subject.now + 1000,
            label: "label",
            comment: "comment",
            searchable: ["server": "example.com", "account": "alice"]
        )
    }

    private static func expect(
        _ backend: Subject,
        _ old: StoredItem,
        _ changes: ItemChanges,
        expires: Date?,
        _ what: String
    ) throws {
        let new = try backend.backend.item(for: old.key, now: changes.modified)
        let attributes = old.attributes
        let expected = try StoredItem(
            key: old.key,
            value: changes.value ?? old.value,
            accessibility: changes.accessibility ?? attributes.accessibility,
            created: attributes.created,
            modified: changes.modified,
            expires: expires,
            label: attributes.label,
            comment: attributes.comment,
            searchable: attributes.searchable
        )
        try backend.expect(new == expected, "\(what): \(String(describing: new?.attributes))")
    }

    static let keepsWhatIsNotNamed = BackendConformance("a write keeps what it does not name") { backend in
        let old = try fullItem(backend)
        let value = try ArchivedValue(data: Data("new".utf8), format: .data)
        for policy in [WritePolicy.replace, .updateOnly] {
            try backend.write(old)
            var changes = ItemChanges(value: value, expires: .unchanged, modified: Subject.now + 5)
            try backend.backend.write(changes, to: old.key, policy: policy)
            try expect(backend, old, changes, expires: old.attributes.expires, "\(policy)")

            changes.label = .removed
            changes.comment = "other"
            changes.attributes = ["server": "example.org"]
            changes.accessibility = .always
            try backend.backend.write(changes, to: old.key, policy: policy)
            let new = try backend.backend.attributes(for: old.key, now: Subject.now + 5)
            try backend.expect(new?.label == nil, "\(policy): the label was not removed")
            try backend.expect(new?.comment == "other", "\(policy): another comment")
            try backend.expect(new?.searchable == ["server": "example.org"], "\(policy): other attributes")
            try backend.expect(new?.accessibility == .always, "\(policy): another class")
        }
        let fresh = try backend.key("fresh")
        try backend.backend.write(
            ItemChanges(value: value, modified: Subject.now),
            to: fresh,
            policy: .replace
        )
        let new = try backend.backend.item(for: fresh, now: Subject.now)
        try backend.expect(
            new == StoredItem(key: fresh, value: value, modified: Subject.now),
            "a new item has other attributes: \(String(describing: new?.attributes))"
        )
    }

    static let expiryBelongsToTheValue = BackendConformance(
        "a replace sets the expiry anew, and an update keeps it"
    ) { backend in
        let old = try fullItem(backend)
        let value = try ArchivedValue(data: Data("new".utf8), format: .data)
        let end = old.attributes.expires
        let later = Subject.now + 5
        let cases: [(WritePolicy, ArchivedValue?, Expiry, Date?)] = [
            (.replace, value, .automatic, nil), (.updateOnly, value, .automatic, end),
            (.replace, nil, .automatic, end), (.updateOnly, nil, .automatic, end),
            (.replace, value, .unchanged, end), (.updateOnly, value, .never, nil),
            (.updateOnly, nil, .at(later + 60), later + 60), (.replace, value, .after(60), later + 60),
        ]
        for (policy, value, expires, expected) in cases {
            try backend.write(old)
            let changes = ItemChanges(value: value, expires: expires, modified: later)
            try backend.backend.write(changes, to: old.key, policy: policy)
            let what = "\(policy), \(value == nil ? "no" : "a") new value, \(expires)"
            try expect(backend, old, changes, expires: expected, what)
        }
        // An expired item has nothing that could stay.
        try backend.write(old)
        let changes = ItemChanges(value: value, expires: .unchanged, modified: Subject.now + 2000)
        try backend.backend.write(changes, to: old.key, policy: .replace)
        let new = try backend.backend.item(for: old.key, now: changes.modified)
        try backend.expect(
            new == StoredItem(key: old.key, value: value, modified: changes.modified),
            "attributes of an expired item: \(String(describing: new?.attributes))"
        )
    }

    static let changesOfAttributes = BackendConformance("attributes change without a value") { backend in
        let old = try fullItem(backend)
        let changes = ItemChanges(accessibility: .always, modified: Subject.now + 5)
        for policy in WritePolicy.allCases {
            try backend.expectError(.itemNotFound(key: "key")) {
                try backend.backend.write(changes, to: old.key, policy: policy)
            }
        }
        try backend.expect(backend.keys().isEmpty, "an item without a value")
        try backend.write(old)
        try backend.expectError(.duplicateItem(key: "key")) {
            try backend.backend.write(changes, to: old.key, policy: .addOnly)
        }
        try backend.backend.write(changes, to: old.key, policy: .updateOnly)
        try expect(backend, old, changes, expires: old.attributes.expires, "another item")
    }

    static let searchable = BackendConformance("items are found by their searchable attributes") { backend in
        func write(_ name: String, _ searchable: [String: String]) throws {
            let changes = ItemChanges(
                value: try ArchivedValue(data: Data(), format: .data),
                attributes: .set(searchable),
                modified: Subject.now
            )
            try backend.backend.write(changes, to: backend.key(name), policy: .replace)
        }
        let lockbox = try Lockbox(keyPrefix: Subject.prefix, backend: backend.backend) { Subject.now }
        func found(_ pairs: [String: String]) throws -> Set<String> {
            Set(try lockbox.list(matching: pairs).items.keys)
        }
        try write("both", ["server": "example.com", "account": "alice"])
        try write("server", ["server": "example.com"])
        try write("none", [:])
        try write("empty", ["server": ""])
        try backend.expect(found(["server": "example.com"]) == ["both", "server"], "by one pair")
        try backend.expect(found(["server": "example.com", "account": "alice"]) == ["both"], "by two pairs")
        try backend.expect(found(["server": "Example.com"]).isEmpty, "by another text")
        try backend.expect(found(["server": ""]) == ["empty"], "by an empty text")
        try backend.expect(found([:]).count == 4, "by no pair")
        let most = Dictionary(
            uniqueKeysWithValues: (0..<ItemAttributes.maximumSearchableCount).map {
                ("name \($0)", String(repeating: "x", count: 240))
            }
        )
        try write("most", most)
        let item = try backend.backend.item(for: backend.key("most"), now: Subject.now)
        try backend.expect(item?.attributes.searchable == most, "not as many as there may be")
        try write("none", ["server": "example.org"])
        try backend.expect(found(["server": "example.org"]) == ["none"], "after a change")
    }

    static let severalValues = BackendConformance("several values are read in one call") { backend in
        for name in ["one", "two"] { try backend.write(backend.item(backend.key(name), name)) }
        try backend.write(backend.item(backend.key("gone"), expires: Subject.now))
        let keys = try ["one", "two", "gone", "missing"].map { try backend.key($0) }
        let found = try backend.backend.values(for: keys, now: Subject.now)
        try backend.expect(found.count == 2, "\(found.count) values")
        for key in keys[..<2] {
            try backend.expect(
                found[key] == backend.backend.value(for: key, now: Subject.now),
                "another value for \(key.key)"
            )
        }
    }

    static let batch = BackendConformance("a batch writes and removes many items") { backend in
        for name in ["replaced", "removed", "updated"] {
            try backend.write(backend.item(backend.key(name), "old"))
        }
        func write(_ name: String, _ policy: WritePolicy = .replace) throws -> ItemOperation {
            let value = try ArchivedValue(data: Data("new".utf8), format: .data)
            return .write(
                ItemChanges(value: value, modified: Subject.now),
                to: try backend.key(name),
                policy: policy
            )
        }
        let names = (0..<300).map { "item \($0)" }
        try backend.backend.apply(
            names.map { try write($0, .addOnly) } + [
                write("replaced"), write("updated", .updateOnly), .remove(backend.key("removed")),
                .remove(backend.key("missing")),
            ]
        )
        try backend.expect(backend.keys() == Set(names + ["replaced", "updated"]), "other keys")
        for name in names + ["replaced", "updated"] {
            try backend.expect(backend.text(backend.key(name)) == "new", "another value of \(name)")
        }
        try backend.expectError(.duplicateItem(key: "item 0")) {
            try backend.backend.apply([write("item 0", .addOnly)])
        }
        try backend.expectError(.itemNotFound(key: "missing")) {
            try backend.backend.apply([write("missing", .updateOnly)])
        }
        do {
            try backend.backend.apply([write("twice"), write("twice")])
            try backend.expect(false, "two operations for one key were not refused")
        } catch let error as LockboxError where error.code == .invalidKey {}
        try backend.expect(backend.text(backend.key("twice")) == nil, "refused, and written")
        try backend.backend.apply([])
    }

    static let moving = BackendConformance("a move keeps the value and all attributes, and loses nothing") {
        backend in
        let (old, new) = (try backend.key("old"), try backend.key("new", prefix: "\(Subject.prefix).other"))
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
            try backend.backend.move(key, to: newKey, policy: policy, now: now)
        }
        try backend.write(item)
        try move(old, new)
        try backend.expect(backend.backend.item(for: old, now: nil) == nil, "the old item is still there")
        let moved = try backend.backend.item(for: new, now: nil)
        try backend.expect(moved?.value == item.value && moved?.attributes == item.attributes, "another item")
        try backend.expectError(.itemNotFound(key: "old")) { try move(old, new, .replace) }

        try backend.write(backend.item(old, "other"))
        try backend.expectError(.duplicateItem(key: "new")) { try move(old, new) }
        try backend.expectError(.itemNotFound(key: "absent")) {
            try move(old, backend.key("absent"), .updateOnly)
        }
        try backend.expect(backend.text(old) == "other" && backend.text(new) == "value", "refused, and moved")
        try move(old, old)
        try backend.expect(backend.text(old) == "other", "a move to its own key has changed the item")
        try move(old, new, .updateOnly)
        try backend.expect(backend.text(old) == nil && backend.text(new) == "other", "nothing was replaced")

        // An expired item counts as absent, at either key.
        let late = Subject.now + 61
        try backend.write(item)
        try backend.expectError(.itemNotFound(key: "old")) { try move(old, new, .replace, at: late) }
        try move(new, old, at: late)
        try backend.expect(
            backend.text(old, at: late) == "other" && backend.text(new) == nil,
            "an expired item was kept"
        )
    }
}
