/// A way to unlock a store: creates the secret of a slot, and returns the same secret at every unlock.
///
/// Lockbox has methods for a passcode, a recovery code, and a key in a file. `LockboxTPM` and `LockboxFIDO2` add
/// hardware. Lockbox derives the slot's keys from the secret and never stores the secret itself.
public protocol UnlockMethod: Sendable {
    /// The kind of the slots that this method creates and opens.
    var kind: SlotKind { get }

    /// Creates a new secret.
    ///
    /// - Parameter salt: 32 random bytes of the new slot. They are stored in the keybag, encrypted with the device
    ///   key, so nobody without the device key can guess a secret that is derived from them.
    /// - Returns: The parameters that ``deriveSecret(_:salt:)`` needs, and the secret.
    /// - Throws: ``LockboxError`` if the secret cannot be created.
    func enroll(salt: [UInt8]) throws -> SlotEnrollment

    /// Returns the secret of a slot.
    ///
    /// - Parameters:
    ///   - parameters: The parameters that ``enroll(salt:)`` returned.
    ///   - salt: The slot's salt.
    /// - Returns: The secret that ``enroll(salt:)`` returned. Lockbox detects a wrong one.
    /// - Throws: ``LockboxError/wrongPasscode`` if the method itself detects a wrong PIN;
    ///   ``LockboxError/accessDenied(endpoint:reason:)`` if the hardware refuses any further attempt for now;
    ///   ``LockboxError/notReachable(endpoint:reason:)`` if the hardware cannot be found.
    func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8]
}
