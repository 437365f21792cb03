import LockboxCore
import LockboxPlatform

/// Requirements for backends with optional capabilities.
extension BackendConformance {
    static let lockState = BackendConformance("the lock state tells which classes can be written and read") {
        subject in
        guard let backend = subject.backend as? any LockableBackend else { return }
        let state = try backend.lockState
        for accessibility in Accessibility.allCases {
            let key = try subject.key("of \(accessibility.rawValue)")
            let error: LockboxError.Code?
            do {
                try subject.write(subject.item(key, accessibility: accessibility))
                try subject.expect(subject.text(key) == "value", "the class \(accessibility) cannot be read")
                error = nil
            } catch let failure as LockboxError {
                error = failure.code
            }
            if accessibility.isThisDeviceOnly, error == .notSupported { continue }
            try subject.expect(
                error == state.refusal(of: accessibility),
                "\(error.map(String.init(describing:)) ?? "success") for \(accessibility) in the state \(state)"
            )
        }
    }

    static let verification = BackendConformance("verify counts every item and finds no problems") {
        subject in
        guard let backend = subject.backend as? any VerifiableBackend else { return }
        try subject.expect(backend.verify { _ in } == VerifyReport(), "findings in an empty store")
        for number in 0..<3 {
            try subject.write(subject.item(subject.key("\(number)"), expires: Subject.now + 1))
        }
        try subject.write(subject.item(subject.key("0", prefix: "\(Subject.prefix).other")))
        let report = try backend.verify { _ in }
        try subject.expect(report == VerifyReport(intactCount: 4), "\(report) for four items")
    }

    static let changes = BackendConformance(
        "changes of a prefix's items are reported until the subscription ends"
    ) {
        subject in
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
        let cancel: @Sendable () -> Void
        do { cancel = try backend.subscribe(prefix: Subject.prefix, receive) } catch let error as LockboxError
            where error.code == .notSupported
        {
            return
        }
        try subject.write(subject.item(subject.key("of another prefix", prefix: "\(Subject.prefix).other")))
        let gone = try subject.key("gone")
        try subject.write(subject.item(gone))
        try subject.write(subject.item(subject.key("new")))
        try backend.update(kept, now: nil) { $0 }
        let deadline = ContinuousClock.now + .seconds(10)
        while reports.withLock({ $0.keys.count < 3 }), ContinuousClock.now < deadline { usleep(1000) }
        let keys = reports.withLock { $0.keys }
        try subject.expect(
            keys == ["new", "kept", "gone"],
            "reported \(keys.sorted()) for writes of new, kept and gone"
        )
        reports.withLock { $0.keys = [] }
        try backend.remove(gone)
        while reports.withLock({ $0.keys.isEmpty }), ContinuousClock.now < deadline { usleep(1000) }
        try subject.expect(reports.withLock { $0.keys.contains("gone") }, "a removal was not reported")
        cancel()
        cancel()
        // One that began before may still be on its way.
        usleep(100_000)
        let count = reports.withLock { $0.count }
        try backend.update(kept, now: nil) { $0 }
        usleep(100_000)
        try subject.expect(reports.withLock { $0.count } == count, "a change after the end was reported")
    }
}

extension LockState {
    /// The error that a write of this class must throw.
    fileprivate func refusal(of accessibility: Accessibility) -> LockboxError.Code? {
        switch (self, accessibility) {
        case (.noPasscode, .whenPasscodeSetThisDeviceOnly): .passcodeNotSet
        case (.noPasscode, _), (.unlocked, _), (_, .always), (_, .alwaysThisDeviceOnly): nil
        case (.locked, .afterFirstUnlock), (.locked, .afterFirstUnlockThisDeviceOnly): nil
        case (.beforeFirstUnlock, _), (.locked, _): .interactionNotAllowed
        }
    }
}
