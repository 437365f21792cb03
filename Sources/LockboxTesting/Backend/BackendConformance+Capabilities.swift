import LockboxCore
import LockboxPlatform

/// Requirements for backends with optional capabilities.
extension BackendConformance {
    static let lockState = BackendConformance("the lock state tells which classes can be written and read") {
        subject in
        guard let backend = subject.backend as? any LockableBackend,
            let state = try subject.ifSupported({ try backend.lockState })
        else { return }
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
        guard let backend = subject.backend as? any VerifiableBackend,
            let empty = try subject.ifSupported({ try backend.verify { _ in } })
        else { return }
        try subject.expect(
            empty == VerifyReport(),
            "verify(progress:) returned \(empty) for an empty backend"
        )
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
        guard let backend = subject.backend as? any LocatingBackend else { return }
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
        guard let backend = subject.backend as? any SynchronizingBackend else { return }
        try backend.synchronize(prefix: Subject.prefix)
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
        guard let backend = subject.backend as? any NotifyingBackend else { return }
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
        guard let cancel = try subject.ifSupported({ try backend.subscribe(prefix: Subject.prefix, receive) })
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
        guard let backend = subject.backend as? any NotifyingBackend else { return }
        try subject.checkEndFromWithin(
            { report in
                try subject.ifSupported { try backend.subscribe(prefix: Subject.prefix) { _ in report() } }
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
