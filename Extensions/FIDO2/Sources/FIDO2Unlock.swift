#if FIDO2
    import CFIDO2
    import LockboxCore
    @_spi(Extensions) public import LockboxStore

    /// Unlocks a store with a FIDO2 security key: with a touch, or also with the key's PIN or a fingerprint.
    ///
    /// The key computes the secret from a secret of its own and the slot's salt (the `hmac-secret` extension). Only the same
    /// key computes the same secret, and nothing of it is stored on the machine. The key counts wrong PINs: after three it
    /// must be unplugged and plugged in again, and after eight it refuses any until it is reset.
    ///
    /// A key that is lost, reset or blocked can no longer open anything: add a recovery code to the store before you add this
    /// method.
    ///
    /// ``enroll(salt:)`` needs two touches, ``deriveSecret(_:salt:)`` one. Calls block until then. A key gives up after some 30
    /// seconds, and this method after 60.
    ///
    /// The process needs access to the key's device, `/dev/hidraw…`, which the user at the screen has on most systems. The
    /// product needs the package trait `FIDO2` and the library libfido2.
    ///
    /// > Important: Tested with a security key in software, and not with a real one yet.
    public struct FIDO2Unlock: UnlockMethod {
        /// The relying party that the credentials are for.
        static let relyingParty = "lockbox"

        private let key: SecurityKey
        private let pin: PasscodeSource?
        private let requiresUserVerification: Bool

        /// Creates a method. Does not use the security key.
        ///
        /// - Parameters:
        ///   - device: The path of the key, as `fido2-token -L` lists it. If `nil`, the first key found, so connect only
        ///     one.
        ///   - pin: The key's PIN. It is read for slots with user verification, and for a new slot if the key has a PIN.
        ///     Others need none.
        ///   - requiresUserVerification: Whether the key must check the PIN, or a fingerprint if there is no PIN, at every
        ///     unlock of a new slot. Does not change existing slots.
        public init(
            device: String? = nil,
            pin: PasscodeSource? = nil,
            requiresUserVerification: Bool = false
        ) {
            self.init(SecurityKey(path: device), pin: pin, requiresUserVerification: requiresUserVerification)
        }

        init(_ key: SecurityKey, pin: PasscodeSource?, requiresUserVerification: Bool) {
            self.key = key
            self.pin = pin
            self.requiresUserVerification = requiresUserVerification
        }

        /// Always ``SlotKind/fido2``.
        public var kind: SlotKind { .fido2 }

        /// Creates a non-resident credential, and lets the key compute the secret. Needs two touches.
        ///
        /// - Parameter salt: 32 random bytes of the new slot.
        /// - Returns: The secret, 32 bytes, and the parameters: 4 bytes and the credential's number, usually 64 to 128.
        /// - Throws: ``LockboxError/notReachable(endpoint:reason:)`` if there is no key, or the user does not touch it;
        ///   ``LockboxError/notSupported(operation:)`` if it has no `hmac-secret`; ``LockboxError/wrongPasscode``;
        ///   ``LockboxError/accessDenied(endpoint:reason:)`` if the PIN is blocked, or this user may not use the device;
        ///   ``LockboxError/invalidPasscode(reason:)`` if the key needs a PIN and there is none, or the reverse, and any
        ///   error of the PIN's source; ``LockboxError/userCanceled``.
        public func enroll(salt: [UInt8]) throws -> SlotEnrollment {
            try Self.check(salt)
            return try key.withOpen { device in
                try device.checkHasSecrets()
                // Keys with a PIN ask for it when they make a credential, even if the slot will not.
                let needsPIN = requiresUserVerification ? try needsPIN(device) : pin != nil && device.hasPIN
                return try withPIN(needsPIN) { pin in
                    let id = try device.makeCredential(pin: pin, isVerified: requiresUserVerification)
                    let verified = requiresUserVerification
                    let answer = try device.secret(
                        of: id,
                        salt: salt,
                        pin: verified ? pin : nil,
                        isVerified: verified
                    )
                    let slot = FIDO2Slot(isVerified: answer.isVerified, credential: id)
                    return SlotEnrollment(parameters: try slot.bytes(), secret: answer.secret)
                }
            }
        }

        /// Lets the key compute the secret of a slot. Needs a touch.
        ///
        /// - Parameters:
        ///   - parameters: Those that ``enroll(salt:)`` returned.
        ///   - salt: The slot's salt.
        /// - Returns: The secret, 32 bytes.
        /// - Throws: The errors of ``enroll(salt:)``; ``LockboxError/notReachable(endpoint:reason:)`` also if it is another
        ///   key, or was reset; ``LockboxError/corrupt(record:reason:)`` and
        ///   ``LockboxError/unsupportedVersion(record:version:)`` for parameters that are not of this method.
        public func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
            let slot = try FIDO2Slot(parameters)
            try Self.check(salt)
            return try key.withOpen { device in
                try device.checkHasSecrets()
                return try withPIN(slot.isVerified ? needsPIN(device) : false) { pin in
                    var answer = try device.secret(
                        of: slot.credential,
                        salt: salt,
                        pin: pin,
                        isVerified: slot.isVerified
                    )
                    guard answer.isVerified == slot.isVerified else {
                        Sodium.wipe(&answer.secret)
                        throw LockboxError.accessDenied(
                            endpoint: device.endpoint,
                            reason:
                                "the key's settings for user verification have changed since the slot was made, "
                                + "and it gives another secret; use the recovery code"
                        )
                    }
                    return answer.secret
                }
            }
        }

        private static func check(_ salt: [UInt8]) throws {
            guard salt.count == 32 else {
                throw LockboxError.corrupt(
                    record: FIDO2Slot.record,
                    reason: "its salt has \(salt.count) bytes"
                )
            }
        }

        /// Whether user verification is by PIN.
        private func needsPIN(_ device: OpenSecurityKey) throws -> Bool {
            guard pin != nil || device.hasUserVerification else {
                throw LockboxError.invalidPasscode(
                    reason: "the slot needs the PIN of the security key, and none was given"
                )
            }
            return pin != nil
        }

        /// Calls `body` with the PIN and a zero at its end, or with nil.
        private func withPIN<Result>(
            _ isNeeded: Bool,
            _ body: (UnsafePointer<CChar>?) throws -> Result
        ) throws -> Result {
            guard isNeeded, let pin else { return try body(nil) }
            let text = try pin.withBytes { pin in
                guard !pin.contains(0) else {
                    throw LockboxError.invalidPasscode(reason: "the PIN has a zero byte")
                }
                return try SecretKey(count: pin.count + 1) {
                    $0.copyMemory(from: pin)
                    $0[pin.count] = 0
                }
            }
            return try text.withBytes { try body($0.bindMemory(to: CChar.self).baseAddress) }
        }
    }

    extension FIDO2Unlock: CustomStringConvertible, CustomReflectable {
        /// The type's name.
        public var description: String { "FIDO2Unlock" }

        /// Keeps `dump(_:)` from showing the contents.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// The parameters of a slot. Version 1:
    ///
    /// ```
    /// offset  bytes
    ///  0      1      version: 1
    ///  1      1      1 if the key verifies its user (PIN, fingerprint), otherwise 0. A key has a secret for each
    ///  2      2      n, the length of the credential's number, little-endian: 1 to 1,024
    ///  4      n      the credential's number
    /// ```
    ///
    /// Nothing follows. The salt of `hmac-secret` is the slot's salt.
    struct FIDO2Slot {
        static let record: LockboxError.Subject = "the FIDO2 slot"
        private static let version: UInt8 = 1
        private static let maximumLength = 1024

        let isVerified: Bool
        let credential: [UInt8]

        init(isVerified: Bool, credential: [UInt8]) {
            self.isVerified = isVerified
            self.credential = credential
        }

        init(_ bytes: [UInt8]) throws {
            guard bytes.count > 4 else { throw Self.corrupt("it is cut short") }
            guard bytes[0] == Self.version else {
                throw LockboxError.unsupportedVersion(record: Self.record, version: Int(bytes[0]))
            }
            guard bytes[1] <= 1 else { throw Self.corrupt("it has unknown flags") }
            let length = Int(bytes[2]) | Int(bytes[3]) << 8
            guard length <= Self.maximumLength, bytes.count == 4 + length else {
                throw Self.corrupt("the length of its credential is wrong")
            }
            isVerified = bytes[1] == 1
            credential = Array(bytes[4...])
        }

        func bytes() throws -> [UInt8] {
            guard (1...Self.maximumLength).contains(credential.count) else {
                throw Self.corrupt("the key's credential has \(credential.count) bytes")
            }
            let length = credential.count
            return [Self.version, isVerified ? 1 : 0, UInt8(length & 0xff), UInt8(length >> 8)] + credential
        }

        private static func corrupt(_ reason: String) -> LockboxError {
            .corrupt(record: record, reason: reason)
        }
    }
#endif
