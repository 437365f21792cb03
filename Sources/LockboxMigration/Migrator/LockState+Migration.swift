package import LockboxCore

extension LockState {
    /// Throws what writing an item of this class does.
    package func check(_ accessibility: Accessibility) throws {
        switch self {
        case .noPasscode:
            if accessibility == .whenPasscodeSetThisDeviceOnly { throw LockboxError.passcodeNotSet }
        case .unlocked: break
        case .locked: if accessibility.rank < 1 { throw LockboxError.interactionNotAllowed(accessibility) }
        case .beforeFirstUnlock:
            if accessibility.rank < 2 { throw LockboxError.interactionNotAllowed(accessibility) }
        }
    }
}

extension Accessibility {
    /// The longer a class is open, the higher.
    var rank: Int {
        switch self {
        case .whenUnlocked, .whenUnlockedThisDeviceOnly, .whenPasscodeSetThisDeviceOnly: 0
        case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly: 1
        case .always, .alwaysThisDeviceOnly: 2
        }
    }
}
