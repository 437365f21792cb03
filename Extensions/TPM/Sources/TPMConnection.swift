#if TPM
    import CTSS2
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    @_spi(Extensions) import LockboxStore

    /// A TPM that is open for one call.
    struct TPMConnection {
        let endpoint: LockboxError.Subject
        let context: OpaquePointer

        /// One at a time: a TPM without resource manager has room for three objects.
        private static let lock = Guarded(())

        /// tpm2-tss prints every wrong PIN on standard error otherwise. It reads the variable at its first message.
        private static let silence: Void = { setenv("TSS2_LOG", "all+NONE", 0) }()

        /// Opens a TPM, and closes it after `body`.
        static func with<Result>(_ tcti: String, _ body: (TPMConnection) throws(LockboxError) -> Result)
            throws(LockboxError) -> Result
        {
            try lock.withLock { _ throws(LockboxError) in
                _ = silence
                var transport: OpaquePointer?
                let code = Tss2_TctiLdr_Initialize(tcti, &transport)
                guard code == 0, transport != nil else { throw TPMError.cannotOpen(tcti, code) }
                defer { Tss2_TctiLdr_Finalize(&transport) }
                var context: OpaquePointer?
                try TPMError.check(Esys_Initialize(&context, transport, nil), "Esys_Initialize", .other(tcti))
                defer {
                    Esys_Finalize(&context)
                    // The library's frames hold what it has decrypted.
                    Sodium.wipeStack()
                }
                return try body(TPMConnection(endpoint: .other(tcti), context: context!))
            }
        }

        func check(_ code: TSS2_RC, _ operation: String) throws(LockboxError) {
            if TPMError.Code(code) == .lockout { throw lockedOut() }
            try TPMError.check(code, operation, endpoint)
        }

        func failure(_ reason: String) -> LockboxError { .notReachable(endpoint: endpoint, reason: reason) }

        func flush(_ handle: ESYS_TR) { _ = Esys_FlushContext(context, handle) }

        /// Returns nil if there is nothing. Close it after use.
        func object(at handle: TPM2_HANDLE) throws(LockboxError) -> ESYS_TR? {
            var object = none
            let code = Esys_TR_FromTPMPublic(context, handle, none, none, none, &object)
            if TPMError.Code(code) == .handle { return nil }
            try check(code, "Esys_TR_FromTPMPublic")
            return object
        }

        var none: ESYS_TR { ESYS_TR(ESYS_TR_NONE) }
        var password: ESYS_TR { ESYS_TR(ESYS_TR_PASSWORD) }
        var owner: ESYS_TR { ESYS_TR(ESYS_TR_RH_OWNER) }

        // MARK: Wrong PINs

        /// The TPM's properties, by the numbers of its specification.
        private func property(_ property: UInt32) throws(LockboxError) -> UInt32? {
            var data: UnsafeMutablePointer<TPMS_CAPABILITY_DATA>?
            let kind = TPM2_CAP(TPM2_CAP_TPM_PROPERTIES)
            let code = Esys_GetCapability(context, none, none, none, kind, property, 1, nil, &data)
            try check(code, "Esys_GetCapability")
            defer { Esys_Free(data) }
            guard let list = data?.pointee.data.tpmProperties, list.count == 1,
                list.tpmProperty.0.property == property
            else { return nil }
            return list.tpmProperty.0.value
        }

        /// The wrong attempts that the TPM has counted, how many it takes, and the seconds after which it forgets one.
        func attempts() throws(LockboxError) -> (failed: UInt32, most: UInt32, seconds: UInt32)? {
            guard let failed = try property(0x20e), let most = try property(0x20f),
                let seconds = try property(0x210)
            else { return nil }
            return (failed, most, seconds)
        }

        private func lockedOut() -> LockboxError {
            var reason = "the TPM refuses every PIN, also the right one, after too many wrong ones"
            if let attempts = try? attempts() {
                reason += " (\(attempts.failed)); it forgets one after \(attempts.seconds) seconds"
            }
            reason += ". Wait, or use the recovery code and then reset the TPM's lockout"
            return .accessDenied(endpoint: endpoint, reason: reason)
        }

        func resetLockout() throws(LockboxError) {
            // A wrong lockout authorization would lock the lockout authorization itself.
            let permanent = try property(0x200) ?? 0
            guard permanent & 4 == 0 else {
                throw LockboxError.accessDenied(
                    endpoint: endpoint,
                    reason:
                        "the TPM's lockout authorization is set. Its owner can reset the lockout with "
                        + "tpm2_dictionarylockout --clear-lockout"
                )
            }
            let lockout = ESYS_TR(ESYS_TR_RH_LOCKOUT)
            let code = Esys_DictionaryAttackLockReset(context, lockout, password, none, none)
            try check(code, "Esys_DictionaryAttackLockReset")
        }
    }

    enum TPMError {
        /// A TPM's answer, without the number of the handle, the session or the parameter.
        enum Code: UInt32 {
            case value = 0x84, handle = 0x8b, wrongAuthorization = 0x8e, integrity = 0x9f, badAuthorization =
                0xa2
            case neverWritten = 0x14a, defined = 0x14c
            case noRoomForObjects = 0x902, noRoomForSessions = 0x903, lockout = 0x921

            init?(_ code: TSS2_RC) {
                // 11 and 12: a resource manager passes on what the TPM has answered, or answers for it.
                guard [0, 11, 12].contains(code >> 16) else { return nil }
                self.init(rawValue: code & 0x80 != 0 ? code & 0xbf : code & 0xfff)
            }
        }

        static let otherTPM = "the TPM was cleared, or this is another TPM; use the recovery code"

        static func check(_ code: TSS2_RC, _ operation: String, _ endpoint: LockboxError.Subject)
            throws(LockboxError)
        {
            guard code != 0 else { return }
            switch Code(code) {
            case .wrongAuthorization: throw LockboxError.wrongPasscode
            case .badAuthorization:
                throw LockboxError.accessDenied(
                    endpoint: endpoint,
                    reason:
                        "the TPM's owner hierarchy has a password (\(text(code, operation))). Remove it, or let "
                        + "the owner create the key or the counter"
                )
            case .integrity: throw LockboxError.notReachable(endpoint: endpoint, reason: otherTPM)
            case .noRoomForObjects, .noRoomForSessions:
                throw LockboxError.notReachable(
                    endpoint: endpoint,
                    reason: "other programs have filled the TPM's memory (\(text(code, operation))). "
                        + "Use a resource manager, such as \(TPMUnlock.defaultTCTI)"
                )
            default: throw LockboxError.notReachable(endpoint: endpoint, reason: text(code, operation))
            }
        }

        /// tpm2-tss does not say why it could not open a device. Opening it again does.
        static func cannotOpen(_ tcti: String, _ code: TSS2_RC) -> LockboxError {
            guard tcti.hasPrefix("device:") else {
                return .notReachable(endpoint: .other(tcti), reason: text(code, "Tss2_TctiLdr_Initialize"))
            }
            let path = String(tcti.dropFirst("device:".count))
            let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
            let cause = descriptor < 0 ? errno : 0
            if descriptor >= 0 { close(descriptor) }
            switch cause {
            case EACCES, EPERM:
                return .accessDenied(
                    endpoint: .other(tcti),
                    reason: "this user may not open it. Add the user to the group that owns it, usually tss"
                )
            case ENOENT, ENXIO, ENODEV:
                return .notReachable(
                    endpoint: .other(tcti),
                    reason: "this machine has no TPM, or it is turned off in the firmware"
                )
            case EBUSY: return .notReachable(endpoint: .other(tcti), reason: "another program uses it")
            case 0:
                return .notReachable(endpoint: .other(tcti), reason: text(code, "Tss2_TctiLdr_Initialize"))
            default: return .notReachable(endpoint: .other(tcti), reason: String(cString: strerror(cause)))
            }
        }

        private static func text(_ code: TSS2_RC, _ operation: String) -> String {
            "\(operation): \(Tss2_RC_Decode(code).map { String(cString: $0) } ?? "") (0x\(String(code, radix: 16)))"
        }
    }
#endif
