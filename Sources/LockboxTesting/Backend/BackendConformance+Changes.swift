import LockboxCore
import LockboxPlatform

/// What a write names changes, and the rest stays as it is.
extension BackendConformance {
    private static func fullItem(_ subject: Subject) throws -> StoredItem {
        try StoredItem(
            key: subject.key("key"),
            value: ArchivedValue(data: Data("old".utf8), format: .data),
            accessibility: .afterFirstUnlock,
            modified: Subject.now,
            expires: Subject.now + 1000,
            label: "label",
            comment: "comment",
            searchable: ["server": "example.com", "account": "alice"]
        )
    }

    /// Makes a write, and expects that only what it names has changed.
    private static func check(
        _ changes: ItemChanges,
        of old: StoredItem,
        _ policy: WritePolicy,
        expires: Date?,
        _ subject: Subject
    ) throws {
        try subject.backend.write(changes, to: old.key, policy: policy)
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
        let value = changes.value == nil ? "without a value" : "with a value"
        try subject.expect(
            expected,
            at: changes.modified,
            after: "a write \(value), expires: .\(changes.expires), policy: .\(policy)"
        )
    }

    static let keepsWhatIsNotNamed = BackendConformance("a write keeps what it does not name") { subject in
        let old = try fullItem(subject)
        let value = try ArchivedValue(data: Data("new".utf8), format: .data)
        for policy in [WritePolicy.replace, .updateOnly] {
            try subject.write(old)
            var changes = ItemChanges(value: value, expires: .unchanged, modified: Subject.now + 5)
            try check(changes, of: old, policy, expires: old.attributes.expires, subject)

            changes.label = .removed
            changes.comment = "other"
            changes.attributes = ["server": "example.org"]
            changes.accessibility = .always
            try subject.backend.write(changes, to: old.key, policy: policy)
            try subject.expect(
                StoredItem(
                    key: old.key,
                    value: value,
                    accessibility: .always,
                    created: Subject.now,
                    modified: changes.modified,
                    expires: old.attributes.expires,
                    comment: "other",
                    searchable: ["server": "example.org"]
                ),
                after: "a write of other attributes, policy: .\(policy)"
            )
        }
        let fresh = try subject.key("fresh")
        let changes = ItemChanges(value: value, modified: Subject.now)
        try subject.backend.write(changes, to: fresh, policy: .replace)
        try subject.expect(
            StoredItem(key: fresh, value: value, modified: Subject.now),
            after: "a write of a new value that names no attributes"
        )
    }

    static let expiryBelongsToTheValue = BackendConformance(
        "a replace sets the expiry anew, and an update keeps it"
    ) { subject in
        let old = try fullItem(subject)
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
            try subject.write(old)
            let changes = ItemChanges(value: value, expires: expires, modified: later)
            try check(changes, of: old, policy, expires: expected, subject)
        }
        // An expired item has nothing that could stay.
        try subject.write(old)
        let changes = ItemChanges(value: value, expires: .unchanged, modified: Subject.now + 2000)
        try subject.backend.write(changes, to: old.key, policy: .replace)
        try subject.expect(
            StoredItem(key: old.key, value: value, modified: changes.modified),
            after: "a write to the key of an expired item"
        )
    }

    static let changesOfAttributes = BackendConformance("attributes change without a value") { subject in
        let old = try fullItem(subject)
        let changes = ItemChanges(accessibility: .always, modified: Subject.now + 5)
        for policy in WritePolicy.allCases {
            try subject.expectError(
                .itemNotFound(key: "key"),
                from: "a write of attributes of an absent item, policy: .\(policy),"
            ) { try subject.backend.write(changes, to: old.key, policy: policy) }
        }
        try subject.expectKeys([], after: "writes of attributes of an absent item")
        try subject.write(old)
        try subject.expectError(
            .duplicateItem(key: "key"),
            from: "a write of attributes of an existing item, policy: .addOnly,"
        ) { try subject.backend.write(changes, to: old.key, policy: .addOnly) }
        try check(changes, of: old, .updateOnly, expires: old.attributes.expires, subject)
    }

    static let searchable = BackendConformance("items are found by their searchable attributes") { subject in
        func write(_ name: String, _ searchable: [String: String]) throws {
            let changes = ItemChanges(
                value: try ArchivedValue(data: Data(), format: .data),
                attributes: .set(searchable),
                modified: Subject.now
            )
            try subject.backend.write(changes, to: subject.key(name), policy: .replace)
        }
        let lockbox = try Lockbox(keyPrefix: Subject.prefix, backend: subject.backend) { Subject.now }
        func expect(_ expected: Set<String>, matching pairs: [String: String]) throws {
            let found = Set(try lockbox.list(matching: pairs).items.keys)
            try subject.expect(
                found == expected,
                "list(matching: \(pairs)) returned the items \(found.sorted()), not \(expected.sorted())"
            )
        }
        try write("both", ["server": "example.com", "account": "alice"])
        try write("server", ["server": "example.com"])
        try write("none", [:])
        try write("empty", ["server": ""])
        try expect(["both", "server"], matching: ["server": "example.com"])
        try expect(["both"], matching: ["server": "example.com", "account": "alice"])
        try expect([], matching: ["server": "Example.com"])
        try expect(["empty"], matching: ["server": ""])
        try expect(["both", "server", "none", "empty"], matching: [:])
        let most = Dictionary(
            uniqueKeysWithValues: (0..<ItemAttributes.maximumSearchableCount).map {
                ("name \($0)", String(repeating: "x", count: 240))
            }
        )
        try write("most", most)
        let count = try subject.backend.item(for: subject.key("most"), now: Subject.now)?.attributes
            .searchable.count
        try expect(["most"], matching: most)
        try subject.expect(
            count == most.count,
            "item(for:now:) returned \(text(count)) searchable attributes, not \(most.count)"
        )
        try write("none", ["server": "example.org"])
        try expect(["none"], matching: ["server": "example.org"])
    }

    // MARK: Classes

    static let classes = BackendConformance(
        "the class is stored, or refused without a passcode or on a shared storage"
    ) { subject in
        for accessibility in Accessibility.allCases {
            let key = try subject.key(accessibility.rawValue)
            do {
                try subject.write(subject.item(key, accessibility: accessibility))
            } catch let error as LockboxError where isRefusal(error, of: accessibility) {
                try subject.expect(key, is: nil, after: "a write that was refused")
                continue
            }
            let found = try subject.backend.attributes(for: key, now: Subject.now)?.accessibility
            try subject.expect(
                found == accessibility,
                "attributes(for:now:) returned the class \(text(found)), not \(accessibility)"
            )
        }
    }

    /// Whether a backend may refuse the class so.
    private static func isRefusal(_ error: LockboxError, of accessibility: Accessibility) -> Bool {
        switch error.code {
        case .passcodeNotSet: accessibility == .whenPasscodeSetThisDeviceOnly
        case .notSupported, .invalidAttribute: accessibility.isThisDeviceOnly
        default: false
        }
    }

    static let changeOfClass = BackendConformance("a change of class changes only the class") { subject in
        let item = try subject.item(subject.key("key"), expires: Subject.now + 1000)
        try subject.write(item)
        for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
            do {
                try subject.backend.setAccessibility(accessibility, for: item.key, now: Subject.now + 5)
            } catch let error as LockboxError where isRefusal(error, of: accessibility) {
                continue
            }
            try subject.expect(
                StoredItem(
                    key: item.key,
                    value: item.value,
                    accessibility: accessibility,
                    created: Subject.now,
                    modified: Subject.now + 5,
                    expires: Subject.now + 1000
                ),
                at: Subject.now + 5,
                after: "setAccessibility(.\(accessibility), for:now:)"
            )
        }
        try subject.expectError(
            .itemNotFound(key: "missing"),
            from: "setAccessibility(_:for:now:) of an absent item"
        ) {
            try subject.backend.setAccessibility(.always, for: subject.key("missing"), now: Subject.now)
        }
    }
}
