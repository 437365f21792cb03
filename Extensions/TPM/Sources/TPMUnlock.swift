#if TPM
    import CTSS2
    public import LockboxCore
    @_spi(Extensions) public import LockboxStore

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

        /// Stretches the PIN.
        private let pin: SecretUnlock?
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
            self.pin = pin.map { .passcode($0, strength: strength) }
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
        ///   - parameters: Those that ``enroll(salt:)`` returned.
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
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { _ in }.")
        public func resetLockout() throws(LockboxError) {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in try tpm.resetLockout() }
        }
    }

    extension TPMUnlock: CustomStringConvertible, CustomReflectable {
        /// The type's name.
        public var description: String { "TPMUnlock" }

        /// Keeps `dump(_:)` from showing the contents.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// The parameters of a slot, some 250 bytes. Version 1:
    ///
    /// ```
    /// offset  bytes
    ///  0      1      version: 1
    ///  1      1      n, 0 if the slot has no PIN
    ///  2      n      the parameters of the passcode's slot, which makes the TPM's authorization of the PIN
    ///         2 + n  name of the storage root key: TPM2B_NAME
    ///         2 + n  public area of the sealed secret: TPM2B_PUBLIC
    ///         2 + n  its encrypted part: TPM2B_PRIVATE
    /// ```
    ///
    /// The last three are as a TPM marshals them: a size in two bytes, big-endian, and as many bytes. Nothing follows.
    struct TPMSlot {
        static let record: LockboxError.Subject = "the TPM slot"
        private static let version: UInt8 = 1

        /// The sealed secret, as the TPM's library has it.
        typealias Sealed = (publicArea: TPM2B_PUBLIC, privateArea: TPM2B_PRIVATE)

        /// Empty without a PIN.
        let pin: [UInt8]
        /// The name of the storage root key: a hash of its public area.
        let primary: [UInt8]
        let sealed: Sealed

        init(pin: [UInt8], primary: [UInt8], sealed: Sealed) {
            self.pin = pin
            self.primary = primary
            self.sealed = sealed
        }

        /// Reads the parameters, and checks all that can be checked without the TPM.
        init(_ bytes: [UInt8]) throws(LockboxError) {
            guard bytes.count > 2, bytes.count > 2 + Int(bytes[1]) else {
                throw Self.corrupt("it is cut short")
            }
            guard bytes[0] == Self.version else {
                throw LockboxError.unsupportedVersion(record: Self.record, version: Int(bytes[0]))
            }
            pin = Array(bytes[2..<(2 + Int(bytes[1]))])
            var offset = 2 + pin.count
            var name = TPM2B_NAME()
            var sealed: Sealed = (TPM2B_PUBLIC(), TPM2B_PRIVATE())
            guard Tss2_MU_TPM2B_NAME_Unmarshal(bytes, bytes.count, &offset, &name) == 0, name.size > 0,
                Tss2_MU_TPM2B_PUBLIC_Unmarshal(bytes, bytes.count, &offset, &sealed.publicArea) == 0,
                Tss2_MU_TPM2B_PRIVATE_Unmarshal(bytes, bytes.count, &offset, &sealed.privateArea) == 0
            else { throw Self.corrupt("it does not have the three parts that it should have") }
            primary = name.bytes
            self.sealed = sealed
            // The library ignores some sizes, and what follows.
            guard try self.bytes() == bytes else { throw Self.corrupt("it has bytes that nothing uses") }
        }

        func bytes() throws(LockboxError) -> [UInt8] {
            let start = [Self.version, UInt8(pin.count)] + pin
            var bytes =
                start + [UInt8](repeating: 0, count: SlotEnrollment.maximumParametersLength - start.count)
            var offset = start.count
            var (name, sealed) = (TPM2B_NAME(primary), sealed)
            guard Tss2_MU_TPM2B_NAME_Marshal(&name, &bytes, bytes.count, &offset) == 0,
                Tss2_MU_TPM2B_PUBLIC_Marshal(&sealed.publicArea, &bytes, bytes.count, &offset) == 0,
                Tss2_MU_TPM2B_PRIVATE_Marshal(&sealed.privateArea, &bytes, bytes.count, &offset) == 0
            else { throw Self.corrupt("the TPM's objects do not fit into it") }
            return Array(bytes[..<offset])
        }

        private static func corrupt(_ reason: String) -> LockboxError {
            .corrupt(record: record, reason: reason)
        }
    }

    extension TPM2B_NAME {
        init(_ bytes: [UInt8]) {
            self.init()
            size = UInt16(min(bytes.count, MemoryLayout.size(ofValue: name)))
            withUnsafeMutableBytes(of: &name) { $0.copyBytes(from: bytes.prefix($0.count)) }
        }

        var bytes: [UInt8] {
            withUnsafeBytes(of: name) { Array($0.prefix(Int(size))) }
        }
    }
#endif
