@_spi(Extensions) public import LockboxCore
public import LockboxPlatform

/// The state of a store's keys at one moment, which is known without an unlock.
public struct StoreStatus: Sendable, Hashable, Codable {
    /// The store's identity, in 32 hexadecimal digits: a hash of its root key, whose private half needs an unlock of all classes. The
    /// first slot makes a new one. In a store without slots, the device key is enough, so that its identity proves little.
    public let identity: String

    /// How often the keybag was written.
    public let generation: UInt64

    /// The number of the keys that new items are sealed with. It grows with every change of the slots and every rotation.
    public let epoch: UInt32

    /// The epochs before it whose keys are kept because items may still be sealed with them. Empty after a complete
    /// rotation.
    public let olderEpochs: [UInt32]

    /// Whether a change of the keys was interrupted, or is under way, before it had written down which items the former ones open.
    /// The secrets that it should revoke still open new items, or make them, until the keys are rotated.
    public let isInterrupted: Bool

    /// Everything that unlocks the store. Empty if the device key alone opens it.
    public let slots: [UnlockSlot]

    /// The accessibility classes that are open.
    public let lockState: LockState

    /// The processes for which the store is unlocked, or `nil` if it is locked or has no slots.
    public let unlockScope: UnlockScope?

    /// When an unlock for every process of the user ends. `nil` if there is none, or if it has no time limit.
    public let unlockedUntil: Date?
}

/// The requirements of a program on a store. A store that does not meet it is refused with
/// ``LockboxError/requirementNotMet(record:reason:)``, because an attacker who can write its files, with or without the
/// device key, may have replaced it.
public struct StoreRequirements: Sendable, Hashable {
    /// How a store must be protected.
    public enum Protection: String, Sendable, Hashable, Codable, CaseIterable {
        /// The device key alone may open it.
        case none
        /// It has a slot of any kind.
        case anySlot
        /// It has a passcode.
        case passcode
    }

    /// How the store must be protected. If a slot is required, only the call that sets it creates a store.
    public var protection: Protection

    /// The least protected class that items may have. Items of a less protected class can be removed, but not read, listed or
    /// overwritten. `nil` allows every class. The records that Lockbox itself keeps in the store are exempt.
    public var minimumAccessibility: Accessibility?

    /// The identity that the store must have: see ``StoreStatus/identity``. `nil` allows any.
    public var identity: String?

    /// Creates requirements.
    ///
    /// - Parameters:
    ///   - protection: How the store must be protected.
    ///   - minimumAccessibility: The least protected class of items, or `nil` for any. `ThisDeviceOnly` makes no difference.
    ///   - identity: The store's identity, or `nil` for any. A program that requires one cannot add the first slot.
    public init(
        protection: Protection = .none,
        minimumAccessibility: Accessibility? = nil,
        identity: String? = nil
    ) {
        self.protection = protection
        self.minimumAccessibility = minimumAccessibility
        self.identity = identity
    }

    /// Returns what is wrong with a store's protection, or nil.
    func violation(_ slots: [KeybagSlot]) -> String? {
        switch protection {
        case .passcode where !slots.contains { $0.kind == .passcode }:
            return "it has no passcode, and this program requires one"
        case .anySlot where slots.isEmpty: return "it has no slot, and this program requires one"
        default: return nil
        }
    }
}

extension Accessibility {
    var protection: Int {
        switch self {
        case .always, .alwaysThisDeviceOnly: 0
        case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly: 1
        case .whenUnlocked, .whenUnlockedThisDeviceOnly: 2
        case .whenPasscodeSetThisDeviceOnly: 3
        }
    }

    /// The least protected class that is as well protected as both, and stays on this device if one of them does.
    func raised(to other: Accessibility?) -> Accessibility {
        guard let other else { return self }
        let higher = other.protection > protection ? other : self
        guard isThisDeviceOnly || other.isThisDeviceOnly else { return higher }
        switch higher {
        case .always: return .alwaysThisDeviceOnly
        case .afterFirstUnlock: return .afterFirstUnlockThisDeviceOnly
        case .whenUnlocked: return .whenUnlockedThisDeviceOnly
        default: return higher
        }
    }
}
