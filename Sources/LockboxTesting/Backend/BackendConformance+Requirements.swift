import LockboxCore
import LockboxPlatform

extension BackendConformance {
    /// All requirements.
    public static let all: [BackendConformance] = [
        absentIsNil, roundTrip, sizes, tooLarge, wholeItem, severalValues,
        replaceKeepsCreated, addOnly, updateOnly, failedWrite, batch, moving,
        expiry, expiryDestroysNothing, policiesAndExpiry, removeExpired,
        removal, removeAll, keyEquality, oddKeys, prefixes, reservedPrefixes, lists,
        classes, changeOfClass, keepsWhatIsNotNamed, expiryBelongsToTheValue, changesOfAttributes, searchable,
        update, updateAcrossPrefixes, updateIsOneStep, manyThreads,
        damagedItems, repair, lockState, verification, locations, synchronization, changes,
        changesEndFromWithin,
    ]

    static let absentIsNil = BackendConformance("an absent item is nil and can be removed") { subject in
        let (backend, key) = (subject.backend, try subject.key("missing"))
        try subject.expect(
            backend.value(for: key, now: Subject.now) == nil,
            "value(for:now:) returned a value"
        )
        try subject.expect(backend.item(for: key, now: Subject.now) == nil, "item(for:now:) returned an item")
        try subject.expect(
            backend.attributes(for: key, now: Subject.now) == nil,
            "attributes(for:now:) returned attributes"
        )
        try subject.expect(
            subject.keys().isEmpty,
            "attributes(prefix:now:) returned items of an empty backend"
        )
        try subject.expect(backend.prefixes().isEmpty, "prefixes() returned prefixes of an empty backend")
        try backend.remove(key)
        try backend.removeAll(prefix: Subject.prefix)
        let count = try backend.removeExpired(prefix: Subject.prefix, now: Subject.now)
        try subject.expect(count == 0, "removeExpired(prefix:now:) returned \(count) for an empty backend")
    }

    static let roundTrip = BackendConformance("an item is read exactly as it was written") { subject in
        let item = try StoredItem(
            key: subject.key("key"),
            value: ArchivedValue(data: Data((0...255).map { UInt8($0) }), format: ValueFormat(rawValue: 200)),
            accessibility: .afterFirstUnlock,
            created: Date(timeIntervalSinceReferenceDate: -1e9 / 3),
            modified: Date(timeIntervalSinceReferenceDate: 0.1 + 0.2),
            expires: Date(timeIntervalSinceReferenceDate: 1e9 / 3),
            label: "Läbel 🔑",
            comment: ""
        )
        try subject.write(item)
        let now = Subject.now - 1e9
        try subject.expect(
            subject.backend.value(for: item.key, now: now) == item.value,
            "value(for:now:) returned another value than was written"
        )
        let attributes = try subject.backend.attributes(for: item.key, now: now)
        try subject.expect(
            attributes == item.attributes,
            "attributes(for:now:) returned \(text(attributes)), not \(item.attributes)"
        )
        let all = try subject.backend.attributes(prefix: Subject.prefix, now: now)
        try subject.expect(
            all == [item.key: item.attributes],
            "attributes(prefix:now:) returned \(all), not \([item.key: item.attributes])"
        )
    }

    static let sizes = BackendConformance("values of every size up to the limit are stored") { subject in
        let key = try subject.key("key")
        let limit = subject.backend.maximumValueSize
        let limits = 65_537...ArchivedValue.maximumSize
        try subject.expect(limits.contains(limit), "maximumValueSize is \(limit), which is not in \(limits)")
        for size in [0, 1, 255, 256, 257, 4096, 65_537, limit] {
            let value = try ArchivedValue(
                data: Data(repeating: UInt8(size & 0xFF), count: size),
                format: .data
            )
            try subject.write(StoredItem(key: key, value: value, modified: Subject.now))
            try subject.expect(
                subject.backend.value(for: key, now: Subject.now) == value,
                "value(for:now:) returned another value than the \(size) bytes that were written"
            )
            let found = try subject.backend.attributes(for: key, now: Subject.now)?.size
            try subject.expect(
                found == size,
                "attributes(for:now:) returned the size \(text(found)) for \(size) bytes"
            )
        }
    }

    static let tooLarge = BackendConformance("a value that is too large for the backend is refused") {
        subject in
        let key = try subject.key("key")
        try subject.write(subject.item(key, "old"))
        let size = ArchivedValue.maximumSize
        let limit = subject.backend.maximumValueSize
        if limit == size { return }
        let large = try ArchivedValue(data: Data(count: size), format: .data)
        try subject.expectError(.valueTooLarge(size: size, limit: limit), from: "a write of \(size) bytes") {
            try subject.write(StoredItem(key: key, value: large, modified: Subject.now))
        }
        try subject.expect(key, is: "old", after: "the write that was refused")
    }

    static let wholeItem = BackendConformance("an item is read with value and attributes") { subject in
        let item = try subject.item(subject.key("key"))
        try subject.write(item)
        try subject.expect(item, after: "a write")
    }

    static let severalValues = BackendConformance("several values are read in one call") { subject in
        for name in ["one", "two"] { try subject.write(subject.item(subject.key(name), name)) }
        try subject.write(subject.item(subject.key("gone"), expires: Subject.now))
        let keys = try ["one", "two", "gone", "missing"].map { try subject.key($0) }
        let found = try subject.backend.values(for: keys, now: Subject.now)
        let names = found.keys.map(\.key).sorted()
        try subject.expect(
            names == ["one", "two"],
            "values(for:now:) returned values of \(names), and two of four items have not expired: one, two"
        )
        for key in keys[..<2] {
            try subject.expect(
                found[key] == subject.backend.value(for: key, now: Subject.now),
                "values(for:now:) returned another value of \(key.key) than value(for:now:)"
            )
        }
    }
}
