import LockboxCore
import LockboxPlatform

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
