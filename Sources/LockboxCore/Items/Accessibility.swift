/// An accessibility class: when an item's value can be read and written.
///
/// The classes, their names and their raw values are those of Apple's Keychain (`kSecAttrAccessible…`), so
/// existing settings can be reused. Each class has its own random key, and determines when that key exists in
/// memory.
///
/// A store without a passcode is always open, like a phone without one. Every class can be read, except
/// ``whenPasscodeSetThisDeviceOnly``, for which there is no key.
public enum Accessibility: String, Sendable, Hashable, Codable, CaseIterable {
    /// Readable only while the store is unlocked. The default. (`kSecAttrAccessibleWhenUnlocked`)
    case whenUnlocked = "ak"

    /// Readable from the first unlock on, also after the store is locked again. For background services.
    /// (`kSecAttrAccessibleAfterFirstUnlock`)
    case afterFirstUnlock = "ck"

    /// Always readable. Protected only by the device key, never by a passcode. Deprecated by Apple.
    /// (`kSecAttrAccessibleAlways`)
    case always = "dk"

    /// Like ``whenUnlocked``, but never in a backup. (`kSecAttrAccessibleWhenUnlockedThisDeviceOnly`)
    case whenUnlockedThisDeviceOnly = "aku"

    /// Like ``afterFirstUnlock``, but never in a backup. (`kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly`)
    case afterFirstUnlockThisDeviceOnly = "cku"

    /// Like ``always``, but never in a backup. (`kSecAttrAccessibleAlwaysThisDeviceOnly`)
    case alwaysThisDeviceOnly = "dku"

    /// Like ``whenUnlockedThisDeviceOnly``, but only in a store with a passcode. Without one, a write throws
    /// ``LockboxError/passcodeNotSet``. (`kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly`)
    case whenPasscodeSetThisDeviceOnly = "akpu"
}

extension Accessibility {
    /// Whether items of the class stay on one device: they are left out of backups, and other devices never share them.
    package var isThisDeviceOnly: Bool {
        switch self {
        case .whenUnlocked, .afterFirstUnlock, .always: false
        case .whenUnlockedThisDeviceOnly, .afterFirstUnlockThisDeviceOnly, .alwaysThisDeviceOnly,
            .whenPasscodeSetThisDeviceOnly:
            true
        }
    }

    /// Whether only an unlock for all classes opens items of the class.
    var needsUnlock: Bool {
        switch self {
        case .whenUnlocked, .whenUnlockedThisDeviceOnly, .whenPasscodeSetThisDeviceOnly: true
        case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly, .always, .alwaysThisDeviceOnly: false
        }
    }
}

/// Records who chose the class. Never makes two items unequal.
///
/// An attacker with only the device key can replace an item by one of a lower class. So a write that keeps the class of what
/// is there needs proof that a writer that could unlock the store chose it.
package struct ClassOrigin: Hashable, Sendable {
    package enum Proof: Sendable {
        /// A writer that could unlock the store chose it.
        case unlocked
        /// The store has no slot, so the device key opens everything. No proof for a store with slots.
        case unprotected
        /// There is no proof.
        case missing
        /// The store is locked, so no proof can be checked.
        case locked
    }

    package let proof: Proof

    package init(_ proof: Proof) { self.proof = proof }

    package static func == (a: Self, b: Self) -> Bool { true }

    package func hash(into hasher: inout Hasher) {}
}
