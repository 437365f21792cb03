package import LockboxCore

extension LockState {
    /// Throws the error that writing an item of this class would throw.
    package func check(_ accessibility: Accessibility) throws {
        switch self {
        case .unprotected:
            if accessibility == .whenPasscodeSetThisDeviceOnly { throw LockboxError.passcodeNotSet }
        case .unlocked: break
        case .locked: if accessibility.rank < 1 { throw LockboxError.interactionNotAllowed(accessibility) }
        case .beforeFirstUnlock:
            if accessibility.rank < 2 { throw LockboxError.interactionNotAllowed(accessibility) }
        }
    }
}

extension Accessibility {
    /// The longer a class stays open, the higher its rank.
    var rank: Int {
        switch self {
        case .whenUnlocked, .whenUnlockedThisDeviceOnly, .whenPasscodeSetThisDeviceOnly: 0
        case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly: 1
        case .always, .alwaysThisDeviceOnly: 2
        }
    }
}
