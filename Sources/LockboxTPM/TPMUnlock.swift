#if TPM
    public import LockboxCore
    public import LockboxSealed
    import LockboxSodium

    /// Unlocks a store with a secret that a Trusted Platform Module (TPM 2.0) keeps, with or without a PIN.
    ///
    /// The secret is 32 random bytes, sealed under the storage root key of the TPM. Only the same TPM can open it. With a PIN,
    /// the TPM first checks a key that Argon2id derives from the PIN. The TPM counts wrong PINs, for all programs of the
    /// machine together, and refuses even the right one after too many: 32 is usual.
    ///
    /// Without a PIN, anyone who can use this machine's TPM can open the slot. This protects a copied store, or a disk
    /// without its machine.
    ///
    /// All that is secret is encrypted between this process and the TPM. No platform configuration registers (PCRs) are
    /// used, so an update of the firmware or the kernel does not matter. A cleared TPM has forgotten the secret: add a
    /// recovery code to the store before you add this method.
    ///
    /// The process needs access to `/dev/tpmrm0`, which the group `tss` has on most systems. The product needs the package
    /// trait `TPM` and the library tpm2-tss.
    ///
    /// Add at most one slot with a PIN per machine. With two on one TPM, unlocking with the second PIN counts as a wrong attempt
    /// on the first.
    ///
    /// Calls block until the TPM has answered, which takes a chip up to some seconds. A process uses the TPM for one call at
    /// a time.
    ///
    /// > Important: Tested with the software TPM swtpm, and not with a chip yet.
    public struct TPMUnlock: UnlockMethod {
        /// The resource manager of the Linux kernel.
        public static let defaultTCTI = "device:/dev/tpmrm0"

        /// What the PIN is stretched with.
        private let pin: PasscodeUnlock?
        private let tcti: String

        /// Creates a method. Does not use the TPM.
        ///
        /// - Parameters:
        ///   - pin: The PIN, 1 to 1,024 bytes. It is read at every call. If it is `nil`, ``enroll(salt:)`` creates a slot
        ///     without a PIN, and a slot with one cannot be opened. A slot without a PIN ignores it.
        ///   - strength: The cost of Argon2id for a new slot.
        ///   - tcti: The TPM, as a TCTI of tpm2-tss: `device:/dev/tpmrm0`, `tabrmd:`,
        ///     `swtpm:host=127.0.0.1,port=2321`. It can name a library to load, so never take it from others.
        public init(
            pin: PasscodeSource?,
            strength: PasscodeStrength = .interactive,
            tcti: String = TPMUnlock.defaultTCTI
        ) {
            self.pin = pin.map { PasscodeUnlock($0, strength: strength) }
            self.tcti = tcti
        }

        /// Always ``SlotKind/tpm``.
        public var kind: SlotKind { .tpm }

        /// Creates a secret and seals it.
        ///
        /// - Parameter salt: 32 random bytes of the new slot. Argon2id uses the first 16.
        /// - Returns: The secret, 32 bytes, and the parameters, some 250 bytes.
        /// - Throws: ``LockboxError/notReachable(endpoint:reason:)`` if there is no TPM, or it fails;
        ///   ``LockboxError/accessDenied(endpoint:reason:)`` if this user may not use it, or the owner hierarchy has a password and no
        ///   storage root key is kept at 0x81000001; ``LockboxError/invalidPasscode(reason:)`` and any error of the PIN's source;
        ///   ``LockboxError/notEnoughMemory(bytes:)``.
        public func enroll(salt: [UInt8]) throws -> SlotEnrollment {
            var stretched = try pin?.enroll(salt: salt) ?? SlotEnrollment(parameters: [], secret: [])
            defer { Sodium.wipe(&stretched.secret) }
            return try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                try tpm.withSession { session throws(LockboxError) in
                    var secret = Sodium.randomBytes(SecretKey.length)
                    do throws(LockboxError) {
                        let name = try tpm.verifiedName(of: session.key)
                        let sealed = try session.seal(secret, stretched.secret)
                        let slot = TPMSlot(pin: stretched.parameters, primary: name, sealed: sealed)
                        return SlotEnrollment(parameters: try slot.bytes(), secret: secret)
                    } catch {
                        Sodium.wipe(&secret)
                        throw error
                    }
                }
            }
        }

        /// Has the TPM open the secret of a slot.
        ///
        /// - Parameters:
        ///   - parameters: What ``enroll(salt:)`` returned.
        ///   - salt: The slot's salt.
        /// - Returns: The secret, 32 bytes.
        /// - Throws: ``LockboxError/wrongPasscode`` if the PIN is wrong, which the TPM has counted;
        ///   ``LockboxError/accessDenied(endpoint:reason:)`` if it has counted too many and refuses any PIN for now, or if
        ///   this user may not use it; ``LockboxError/notReachable(endpoint:reason:)`` if there is no TPM, it fails, it was
        ///   cleared, or it is another one; ``LockboxError/invalidPasscode(reason:)`` if the slot needs a PIN and there is
        ///   none; ``LockboxError/corrupt(record:reason:)`` and ``LockboxError/unsupportedVersion(record:version:)`` for
        ///   parameters that are not of this method.
        public func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
            let slot = try TPMSlot(parameters)
            var authorization = try authorization(slot, salt)
            defer { Sodium.wipe(&authorization) }
            return try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                try tpm.withSession(named: slot.primary) { session throws(LockboxError) in
                    try session.unseal(slot.sealed, authorization)
                }
            }
        }

        /// Returns what the TPM checks: 32 bytes from the PIN, or none without one.
        private func authorization(_ slot: TPMSlot, _ salt: [UInt8]) throws -> [UInt8] {
            if slot.pin.isEmpty { return [] }
            guard let pin else {
                throw LockboxError.invalidPasscode(
                    reason: "the slot needs the PIN of the TPM, and none was given"
                )
            }
            return try pin.deriveSecret(slot.pin, salt: salt)
        }

        /// Makes the TPM forget the wrong PINs that it has counted. Call it after a recovery: until then, the TPM refuses
        /// the right PIN too.
        ///
        /// Works only if the lockout authorization is empty, as on most machines. A thief of the machine can then do it too.
        ///
        /// - Throws: ``LockboxError/accessDenied(endpoint:reason:)`` if the lockout authorization is set (no attempt is
        ///   made); the errors of ``enroll(salt:)`` about the TPM.
        public func resetLockout() throws(LockboxError) {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in try tpm.resetLockout() }
        }
    }

    extension TPMUnlock: CustomStringConvertible, CustomReflectable {
        /// A fixed text. Does not show the PIN.
        public var description: String { "TPMUnlock" }

        /// Keeps `dump(_:)` from showing the PIN.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }
#endif
