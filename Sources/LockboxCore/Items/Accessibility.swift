/// When an item's value can be read and written.
///
/// The classes, their names and their raw values are those of the Apple Keychain
/// (`kSecAttrAccessible…`), so stored settings and habits carry over. Each class has its own random key, and
/// the class decides when that key exists in memory.
///
/// A store without a passcode is open, like a phone without one: every class is readable then, except
/// ``whenPasscodeSetThisDeviceOnly``, for which there is no key.
public enum Accessibility: String, Sendable, Hashable, Codable, CaseIterable {
    /// Only while the store is unlocked. The default. (`kSecAttrAccessibleWhenUnlocked`)
    case whenUnlocked = "ak"

    /// From the first unlock on, also after the store is locked again. For background services.
    /// (`kSecAttrAccessibleAfterFirstUnlock`)
    case afterFirstUnlock = "ck"

    /// Always. Protected by the device key alone, never by a passcode. Apple deprecates this class.
    /// (`kSecAttrAccessibleAlways`)
    case always = "dk"

    /// As ``whenUnlocked``, and left out of backups. (`kSecAttrAccessibleWhenUnlockedThisDeviceOnly`)
    case whenUnlockedThisDeviceOnly = "aku"

    /// As ``afterFirstUnlock``, and left out of backups.
    /// (`kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly`)
    case afterFirstUnlockThisDeviceOnly = "cku"

    /// As ``always``, and left out of backups. (`kSecAttrAccessibleAlwaysThisDeviceOnly`)
    case alwaysThisDeviceOnly = "dku"

    /// As ``whenUnlockedThisDeviceOnly``, and only in a store that has a passcode: without one a write throws
    /// ``LockboxError/passcodeNotSet``. (`kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly`)
    case whenPasscodeSetThisDeviceOnly = "akpu"
}
