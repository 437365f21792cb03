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
        try subject.expect(report == VerifyReport(intact: 4), "\(report) for four items")
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
