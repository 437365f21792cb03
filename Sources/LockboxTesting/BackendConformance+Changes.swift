import Lockbox
import LockboxCore
import LockboxPlatform

/// A write changes what it names. The rest stays as it is.
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
        try subject.write(changes, to: old.key, policy)
        let attributes = old.attributes
        let expected = try StoredItem(
            key: old.key,
            value: changes.value ?? old.value,
            accessibility: changes.options.accessibility ?? attributes.accessibility,
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
            after: "a write \(value), expires: .\(changes.options.expires), policy: .\(policy)"
        )
    }

    static let keepsWhatIsNotNamed = BackendConformance("a write keeps what it does not name") { subject in
        let old = try fullItem(subject)
        let value = try ArchivedValue(data: Data("new".utf8), format: .data)
        for policy in [WritePolicy.replace, .updateOnly] {
            try subject.write(old)
            var changes = ItemChanges(
                value: value,
                options: WriteOptions(expires: .unchanged),
                modified: Subject.now + 5
            )
            try check(changes, of: old, policy, expires: old.attributes.expires, subject)

            changes.options.label = .removed
            changes.options.comment = "other"
            changes.options.attributes = ["server": "example.org"]
            changes.options.accessibility = .always
            try subject.write(changes, to: old.key, policy)
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
        try subject.write(changes, to: fresh)
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
            let changes = ItemChanges(value: value, options: WriteOptions(expires: expires), modified: later)
            try check(changes, of: old, policy, expires: expected, subject)
        }
        // An expired item has nothing that could stay.
        try subject.write(old)
        let changes = ItemChanges(
            value: value,
            options: WriteOptions(expires: .unchanged),
            modified: Subject.now + 2000
        )
        try subject.write(changes, to: old.key)
        try subject.expect(
            StoredItem(key: old.key, value: value, modified: changes.modified),
            after: "a write to the key of an expired item"
        )
    }

    static let changesOfAttributes = BackendConformance("attributes change without a value") { subject in
        let old = try fullItem(subject)
        let changes = ItemChanges(options: WriteOptions(accessibility: .always), modified: Subject.now + 5)
        for policy in WritePolicy.allCases {
            try subject.expectError(
                .itemNotFound(key: "key"),
                from: "a write of attributes of an absent item, policy: .\(policy),"
            ) { try subject.write(changes, to: old.key, policy) }
        }
        try subject.expectKeys([], after: "writes of attributes of an absent item")
        try subject.write(old)
        try subject.expectError(
            .duplicateItem(key: "key"),
            from: "a write of attributes of an existing item, policy: .addOnly,"
        ) { try subject.write(changes, to: old.key, .addOnly) }
        try check(changes, of: old, .updateOnly, expires: old.attributes.expires, subject)
    }

    static let searchable = BackendConformance("items are found by their searchable attributes") { subject in
        func write(_ name: String, _ searchable: [String: String]) throws {
            let changes = ItemChanges(
                value: try ArchivedValue(data: Data(), format: .data),
                options: WriteOptions(attributes: .set(searchable)),
                modified: Subject.now
            )
            try subject.write(changes, to: subject.key(name))
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

/// Requirements for backends with optional capabilities.
extension BackendConformance {
    static let lockState = BackendConformance("the lock state tells which classes can be written and read") {
        subject in
        guard let state = try LockboxError.ifSupported({ try subject.backend.lockState }) else { return }
        for accessibility in Accessibility.allCases {
            let key = try subject.key("of \(accessibility.rawValue)")
            var code: LockboxError.Code?
            do {
                try subject.write(subject.item(key, accessibility: accessibility))
                try subject.expect(key, is: "value", after: "a write with the class \(accessibility)")
            } catch let error as LockboxError {
                code = error.code
            }
            if accessibility.isThisDeviceOnly, code == .notSupported { continue }
            let expected = state.refusal(of: accessibility)
            try subject.expect(
                code == expected,
                """
                a write with the class \(accessibility) \(code.map { "threw .\($0)" } ?? "succeeded"); lockState is \(state), \
                so it should have \(expected.map { "thrown .\($0)" } ?? "succeeded")
                """
            )
        }
    }

    static let verification = BackendConformance("verify counts every item and finds no problems") {
        subject in
        let backend = subject.backend
        do {
            guard let empty = try LockboxError.ifSupported({ try backend.verify { _ in } }) else { return }
            try subject.expect(
                empty == VerifyReport(),
                "verify(progress:) returned \(empty) for an empty backend"
            )
        } catch LockboxError.storeNotFound {}  // the first item makes it
        for number in 0..<3 {
            try subject.write(subject.item(subject.key("\(number)"), expires: Subject.now + 1))
        }
        try subject.write(subject.item(subject.key("0", prefix: "\(Subject.prefix).other")))
        let report = try backend.verify { _ in }
        try subject.expect(
            report == VerifyReport(intactCount: 4),
            "verify(progress:) returned \(report) for four intact items"
        )
    }

    static let locations = BackendConformance("each item has a location of its own") { subject in
        let backend = subject.backend
        let keys = try [
            subject.key("one"), subject.key("two"), subject.key("one", prefix: "\(Subject.prefix).other"),
        ]
        for key in keys { try subject.write(subject.item(key)) }
        let locations = try keys.compactMap { try backend.location(of: $0) }
        try subject.expect(
            Set(locations).count == locations.count,
            "location(of:) returned \(locations) for three items"
        )
        let again = try keys.compactMap { try backend.location(of: $0) }
        try subject.expect(again == locations, "location(of:) returned \(locations), and then \(again)")
    }

    static let synchronization = BackendConformance("synchronize changes nothing, with and without items") {
        subject in
        let backend = subject.backend
        let isDone: Void? = try LockboxError.ifSupported { try backend.synchronize(prefix: Subject.prefix) }
        if isDone == nil { return }
        let item = try subject.item(subject.key("key"), expires: Subject.now + 1)
        try subject.write(item)
        for prefix in [Subject.prefix, "com.example.empty"] { try backend.synchronize(prefix: prefix) }
        try subject.expect(item, after: "synchronize(prefix:)")
        let prefixes = try backend.prefixes()
        try subject.expect(
            prefixes == [Subject.prefix],
            "after synchronize(prefix:), prefixes() returned \(prefixes.sorted()), and only \(Subject.prefix) has items"
        )
    }

    static let changes = BackendConformance(
        "changes of a prefix's items are reported until the subscription ends"
    ) { subject in
        let backend = subject.backend
        let kept = try subject.key("kept")
        try subject.write(subject.item(kept))
        let reports = Protected<(keys: Set<String>, count: Int)>(([], 0))
        @Sendable func receive(_ change: Result<LockboxChange, any Error>) {
            reports.withLock { reports in
                reports.count += 1
                switch change {
                case .success(.item(let key)): reports.keys.insert(key)
                case .success(.everything): reports.keys.formUnion(["new", "kept", "gone"])
                case .success(.unknownItem), .failure: break
                }
            }
        }
        guard
            let cancel = try LockboxError.ifSupported({
                try backend.subscribe(prefix: Subject.prefix, receive)
            })
        else { return }
        try subject.write(subject.item(subject.key("of another prefix", prefix: "\(Subject.prefix).other")))
        let gone = try subject.key("gone")
        try subject.write(subject.item(gone))
        try subject.write(subject.item(subject.key("new")))
        try backend.update(kept, now: nil) { $0 }
        func expectReport(of expected: Set<String>, _ changes: String) throws {
            func found() -> Set<String> { reports.withLock { $0.keys } }
            try subject.wait("\(changes) were made, and \(found().sorted()) reported") {
                found().isSuperset(of: expected)
            }
        }
        try expectReport(of: ["new", "kept", "gone"], "writes of the items new, kept and gone")
        let others = reports.withLock { $0.keys }.subtracting(["new", "kept", "gone"])
        try subject.expect(
            others.isEmpty,
            "changes of \(others.sorted()) were reported, which has another prefix"
        )
        reports.withLock { $0.keys = [] }
        try backend.remove(gone)
        try expectReport(of: ["gone"], "a removal of the item gone")
        cancel()
        cancel()
        try subject.expectNoReport({ reports.withLock { $0.count } }) {
            try backend.update(kept, now: nil) { $0 }
        }
    }

    static let changesEndFromWithin = BackendConformance("a subscription can be ended by what it reports to")
    { subject in
        try subject.checkEndFromWithin(
            { report in
                try LockboxError.ifSupported {
                    try subject.backend.subscribe(prefix: Subject.prefix) { _ in report() }
                }
            },
            { try subject.write(subject.item(subject.key("key"))) }
        )
    }
}

extension LockState {
    /// The error that a write of this class must throw.
    fileprivate func refusal(of accessibility: Accessibility) -> LockboxError.Code? {
        switch (self, accessibility) {
        case (.unprotected, .whenPasscodeSetThisDeviceOnly): .passcodeNotSet
        case (.unprotected, _), (.unlocked, _), (_, .always), (_, .alwaysThisDeviceOnly): nil
        case (.locked, .afterFirstUnlock), (.locked, .afterFirstUnlockThisDeviceOnly): nil
        case (.beforeFirstUnlock, _), (.locked, _): .interactionNotAllowed
        }
    }
}
