#if TPM
    import CTSS2
    import LockboxCore
    import LockboxSodium

    extension TPMConnection {
        // MARK: The storage root key

        /// Where the TCG's provisioning guidance has the storage root key.
        private static let storageRootKey: TPM2_HANDLE = 0x8100_0001

        /// Calls `body` with the storage root key: the one that the TPM keeps, or otherwise the one that it derives from its
        /// seed, which is the same every time.
        ///
        /// - Parameter name: The key's name in a slot. Both keys are looked at, as a system may begin to keep one later.
        func withPrimary<Result>(named name: [UInt8]? = nil, _ body: (ESYS_TR) throws -> Result) throws
            -> Result
        {
            if var kept = try keptPrimary() {
                defer { Esys_TR_Close(context, &kept) }
                let found = try verifiedName(of: kept)
                if name == nil || found == name { return try body(kept) }
            }
            let made = try makePrimary()
            defer { flush(made) }
            guard try name == nil || verifiedName(of: made) == name else {
                throw LockboxError.notReachable(endpoint: endpoint, reason: TPMError.otherTPM)
            }
            return try body(made)
        }

        private func keptPrimary() throws -> ESYS_TR? {
            var key = TPMConnection.none
            let code = Esys_TR_FromTPMPublic(
                context,
                TPMConnection.storageRootKey,
                TPMConnection.none,
                TPMConnection.none,
                TPMConnection.none,
                &key
            )
            if TPMError.Code(code) == .handle { return nil }
            try check(code, "Esys_TR_FromTPMPublic")
            return key
        }

        private func makePrimary() throws -> ESYS_TR {
            var sensitive = TPM2B_SENSITIVE_CREATE()
            var template = TPM2B_PUBLIC()
            template.publicArea.type = TPMI_ALG_PUBLIC(TPM2_ALG_ECC)
            template.publicArea.nameAlg = TPMI_ALG_HASH(TPM2_ALG_SHA256)
            template.publicArea.objectAttributes =
                TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_SENSITIVEDATAORIGIN
                | TPMA_OBJECT_USERWITHAUTH | TPMA_OBJECT_NODA | TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT
            var curve = TPMS_ECC_PARMS()
            curve.symmetric.algorithm = TPMI_ALG_SYM_OBJECT(TPM2_ALG_AES)
            curve.symmetric.keyBits.aes = 128
            curve.symmetric.mode.aes = TPMI_ALG_SYM_MODE(TPM2_ALG_CFB)
            curve.scheme.scheme = TPMI_ALG_ECC_SCHEME(TPM2_ALG_NULL)
            curve.curveID = TPMI_ECC_CURVE(TPM2_ECC_NIST_P256)
            curve.kdf.scheme = TPMI_ALG_KDF(TPM2_ALG_NULL)
            template.publicArea.parameters.eccDetail = curve
            var (outside, registers) = (TPM2B_DATA(), TPML_PCR_SELECTION())
            var key = TPMConnection.none
            let code = Esys_CreatePrimary(
                context,
                TPMConnection.owner,
                TPMConnection.password,
                TPMConnection.none,
                TPMConnection.none,
                &sensitive,
                &template,
                &outside,
                &registers,
                &key,
                nil,
                nil,
                nil,
                nil
            )
            try check(code, "Esys_CreatePrimary")
            return key
        }

        /// Returns the name of a key that tpm2-tss encrypts to, computed from the key itself.
        ///
        /// tpm2-tss takes the name of a kept key from the TPM's answer, and does not check that it is the hash of the public
        /// area in the same answer. Somebody on the bus could send the right name with a key of his own, and decrypt the
        /// session.
        func verifiedName(of key: ESYS_TR) throws -> [UInt8] {
            var (bytes, count) = (UnsafeMutablePointer<UInt8>?.none, 0)
            try check(Esys_TR_Serialize(context, key, &bytes, &count), "Esys_TR_Serialize")
            defer { Esys_Free(bytes) }
            // A handle, the name, a number for the type, and the public area, which is the last part.
            var offset = 4
            var name = TPM2B_NAME()
            guard let bytes, Tss2_MU_TPM2B_NAME_Unmarshal(bytes, count, &offset, &name) == 0,
                offset + 6 <= count,
                6 + offset + Int(bytes[offset + 4]) << 8 + Int(bytes[offset + 5]) == count
            else {
                throw LockboxError.notReachable(
                    endpoint: endpoint,
                    reason: "tpm2-tss does not show the storage root key"
                )
            }
            let area = UnsafeRawBufferPointer(start: bytes + offset + 6, count: count - offset - 6)
            let sha256: [UInt8] = [0x00, 0x0b]
            guard name.bytes == sha256 + Sodium.sha256(area) else {
                throw LockboxError.notReachable(
                    endpoint: endpoint,
                    reason: "the name of the storage root key does not belong to the key. "
                        + "Somebody may have changed what the TPM has sent"
                )
            }
            return name.bytes
        }

        // MARK: Sessions

        /// Calls `body` with a session that authorizes, and encrypts the first parameter of commands and answers. Its key is
        /// agreed on with the storage root key, so that it is not on the bus.
        func withSession<Result>(saltedFor key: ESYS_TR, _ body: (ESYS_TR) throws -> Result) throws -> Result
        {
            var cipher = TPMT_SYM_DEF()
            cipher.algorithm = TPMI_ALG_SYM(TPM2_ALG_AES)
            cipher.keyBits.aes = 128
            cipher.mode.aes = TPMI_ALG_SYM_MODE(TPM2_ALG_CFB)
            var session = TPMConnection.none
            let code = Esys_StartAuthSession(
                context,
                key,
                TPMConnection.none,
                TPMConnection.none,
                TPMConnection.none,
                TPMConnection.none,
                nil,
                TPM2_SE(TPM2_SE_HMAC),
                &cipher,
                TPMI_ALG_HASH(TPM2_ALG_SHA256),
                &session
            )
            try check(code, "Esys_StartAuthSession")
            defer { flush(session) }
            let attributes = TPMA_SESSION_CONTINUESESSION | TPMA_SESSION_DECRYPT | TPMA_SESSION_ENCRYPT
            try check(
                Esys_TRSess_SetAttributes(context, session, attributes, 0xff),
                "Esys_TRSess_SetAttributes"
            )
            return try body(session)
        }

        // MARK: The secret

        /// - Parameter authorization: What the TPM is to check, and to count if it is wrong. nil: it checks nothing.
        func seal(
            _ secret: [UInt8],
            _ authorization: SecretKey?,
            under primary: ESYS_TR,
            _ session: ESYS_TR
        ) throws -> TPMSlot.Sealed {
            var template = TPM2B_PUBLIC()
            template.publicArea.type = TPMI_ALG_PUBLIC(TPM2_ALG_KEYEDHASH)
            template.publicArea.nameAlg = TPMI_ALG_HASH(TPM2_ALG_SHA256)
            template.publicArea.objectAttributes =
                TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_USERWITHAUTH
                | (authorization == nil ? TPMA_OBJECT_NODA : 0)
            template.publicArea.parameters.keyedHashDetail.scheme.scheme = TPMI_ALG_KEYEDHASH_SCHEME(
                TPM2_ALG_NULL
            )
            var (outside, registers) = (TPM2B_DATA(), TPML_PCR_SELECTION())
            var privateArea: UnsafeMutablePointer<TPM2B_PRIVATE>?
            var publicArea: UnsafeMutablePointer<TPM2B_PUBLIC>?
            let code = withWiped(TPM2B_SENSITIVE_CREATE()) { sensitive in
                withUnsafeMutableBytes(of: &sensitive.pointee.sensitive.data.buffer) {
                    $0.copyBytes(from: secret)
                }
                sensitive.pointee.sensitive.data.size = UInt16(secret.count)
                if let authorization { sensitive.pointee.sensitive.userAuth.set(authorization) }
                defer { forgetSensitive() }
                return Esys_Create(
                    context,
                    primary,
                    session,
                    TPMConnection.none,
                    TPMConnection.none,
                    sensitive,
                    &template,
                    &outside,
                    &registers,
                    &privateArea,
                    &publicArea,
                    nil,
                    nil,
                    nil
                )
            }
            try check(code, "Esys_Create")
            defer {
                Esys_Free(privateArea)
                Esys_Free(publicArea)
            }
            return (publicArea!.pointee, privateArea!.pointee)
        }

        func unseal(
            _ sealed: TPMSlot.Sealed,
            _ authorization: SecretKey?,
            under primary: ESYS_TR,
            _ session: ESYS_TR
        ) throws -> [UInt8] {
            var (sealed, object) = (sealed, TPMConnection.none)
            try check(
                Esys_Load(
                    context,
                    primary,
                    session,
                    TPMConnection.none,
                    TPMConnection.none,
                    &sealed.privateArea,
                    &sealed.publicArea,
                    &object
                ),
                "Esys_Load"
            )
            defer { flush(object) }
            var data: UnsafeMutablePointer<TPM2B_SENSITIVE_DATA>?
            let code = withAuthorization(authorization, of: object) {
                Esys_Unseal(context, object, session, TPMConnection.none, TPMConnection.none, &data)
            }
            overwriteAnswer(primary)
            try check(code, "Esys_Unseal")
            defer {
                Sodium.wipe(
                    UnsafeMutableRawBufferPointer(start: data, count: MemoryLayout<TPM2B_SENSITIVE_DATA>.size)
                )
                Esys_Free(data)
            }
            guard let data, data.pointee.size == UInt16(SecretKey.length) else {
                throw LockboxError.corrupt(
                    record: TPMSlot.record,
                    reason: "its secret does not have 32 bytes"
                )
            }
            return withUnsafeBytes(of: &data.pointee.buffer) { Array($0.prefix(SecretKey.length)) }
        }

        // MARK: Memory

        private func withWiped<Value, Result>(_ value: Value, _ body: (UnsafeMutablePointer<Value>) -> Result)
            -> Result
        {
            let pointer = UnsafeMutablePointer<Value>.allocate(capacity: 1)
            pointer.initialize(to: value)
            defer {
                Sodium.wipe(UnsafeMutableRawBufferPointer(start: pointer, count: MemoryLayout<Value>.size))
                pointer.deallocate()
            }
            return body(pointer)
        }

        private func withAuthorization<Result>(_ key: SecretKey?, of object: ESYS_TR, _ body: () -> Result)
            -> Result
        {
            withWiped(TPM2B_AUTH()) { authorization in
                if let key { authorization.pointee.set(key) }
                Esys_TR_SetAuth(context, object, authorization)
                defer {
                    authorization.pointee = TPM2B_AUTH()
                    Esys_TR_SetAuth(context, object, authorization)
                }
                return body()
            }
        }

        /// tpm2-tss keeps a copy of the last call's secret. This call overwrites it. It fails before it reaches the TPM,
        /// because there is no such parent.
        private func forgetSensitive() {
            var (sensitive, template) = (TPM2B_SENSITIVE_CREATE(), TPM2B_PUBLIC())
            var (outside, registers) = (TPM2B_DATA(), TPML_PCR_SELECTION())
            let none = TPMConnection.none
            let parent: ESYS_TR = 0x7fff_ffff
            _ = Esys_Create_Async(
                context,
                parent,
                TPMConnection.password,
                none,
                none,
                &sensitive,
                &template,
                &outside,
                &registers
            )
        }

        /// tpm2-tss decrypts answers in its buffer. A long answer overwrites the one with the secret.
        private func overwriteAnswer(_ primary: ESYS_TR) {
            let none = TPMConnection.none
            var area: UnsafeMutablePointer<TPM2B_PUBLIC>?
            _ = Esys_ReadPublic(context, primary, none, none, none, &area, nil, nil)
            Esys_Free(area)
        }
    }

    extension TPM2B_DIGEST {
        /// Without the zeros at the end, as TPMs drop them.
        fileprivate mutating func set(_ key: SecretKey) {
            key.withBytes { key in
                size = UInt16((key.lastIndex { $0 != 0 } ?? -1) + 1)
                withUnsafeMutableBytes(of: &buffer) { $0.copyMemory(from: key) }
            }
        }
    }
#endif
