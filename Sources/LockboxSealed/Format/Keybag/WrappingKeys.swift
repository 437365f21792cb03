import LockboxCore
import LockboxFiles
import LockboxSodium

/// The keys that wrap the keys of a keybag.
struct WrappingKeys: Sendable {
    let device: SecretKey
    /// Derived from the device key and the passcode. Nil if there is no passcode, or it has not been entered.
    let passcode: SecretKey?

    /// Derives the key that wraps the guarded keys of a store with a passcode. It takes both the device key and
    /// the passcode.
    static func combine(_ passcodeKey: SecretKey, _ device: SecretKey) throws -> SecretKey {
        try SecretKey { output in
            device.withBytes { Sodium.hash($0, key: passcodeKey, personal: .passcode, into: output) }
        }
    }
}
