#if TPM
    import CTSS2
    import LockboxCore
    import LockboxPlatform
    import LockboxSodium

    /// A TPM that is open for one call.
    struct TPMConnection {
        let endpoint: String
        let context: OpaquePointer

        /// One at a time: a TPM without resource manager has room for three objects.
        private static let lock = Lock()

        /// tpm2-tss prints every wrong PIN on standard error otherwise. It reads the variable at its first message.
        private static let silence: Void = { setenv("TSS2_LOG", "all+NONE", 0) }()

        /// Opens a TPM, and closes it after `body`.
        static func with<Result>(_ tcti: String, _ body: (TPMConnection) throws(LockboxError) -> Result)
            throws(LockboxError) -> Result
        {
            try lock.withLock { () throws(LockboxError) in
                _ = silence
                var transport: OpaquePointer?
                let code = Tss2_TctiLdr_Initialize(tcti, &transport)
                guard code == 0, transport != nil else { throw TPMError.cannotOpen(tcti, code) }
                defer { Tss2_TctiLdr_Finalize(&transport) }
                var context: OpaquePointer?
                try TPMError.check(Esys_Initialize(&context, transport, nil), "Esys_Initialize", tcti)
                defer {
                    Esys_Finalize(&context)
                    // What the library has decrypted is in its frames.
                    Sodium.wipeStack()
                }
                return try body(TPMConnection(endpoint: tcti, context: context!))
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

        /// What the TPM says of itself, by the numbers of its specification.
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
                        "the TPM's lockout authorization is set. Whoever has it can reset the lockout with "
                        + "tpm2_dictionarylockout --clear-lockout"
                )
            }
            let lockout = ESYS_TR(ESYS_TR_RH_LOCKOUT)
            let code = Esys_DictionaryAttackLockReset(context, lockout, password, none, none)
            try check(code, "Esys_DictionaryAttackLockReset")
        }
    }
#endif
