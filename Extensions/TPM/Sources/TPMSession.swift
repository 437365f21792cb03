#if TPM
    import CTSS2
    import LockboxCore
    @_spi(Extensions) import LockboxStore

    /// A session with a TPM that encrypts what is secret, and the storage root key, with which its key was agreed on.
    struct TPMSession {
        let tpm: TPMConnection
        let key: ESYS_TR
        let handle: ESYS_TR

        // MARK: The secret

        /// Seals a secret under the storage root key.
        ///
        /// - Parameter authorization: The TPM checks it, and counts wrong ones. If it is empty, the TPM checks nothing.
        func seal(_ secret: [UInt8], _ authorization: [UInt8]) throws(LockboxError) -> TPMSlot.Sealed {
            var publicArea: UnsafeMutablePointer<TPM2B_PUBLIC>?
            var privateArea: UnsafeMutablePointer<TPM2B_PRIVATE>?
            let code = withWiped(TPM2B_SENSITIVE_CREATE()) { parameter in
                withUnsafeMutableBytes(of: &parameter.pointee.sensitive.data.buffer) {
                    $0.copyBytes(from: secret)
                }
                parameter.pointee.sensitive.data.size = UInt16(secret.count)
                parameter.pointee.sensitive.userAuth.set(authorization)
                defer { tpm_forget_sealed(tpm.context) }
                return tpm_seal(tpm.context, key, handle, parameter, &publicArea, &privateArea)
            }
            try tpm.check(code, "Esys_Create")
            defer {
                Esys_Free(publicArea)
                Esys_Free(privateArea)
            }
            return (publicArea!.pointee, privateArea!.pointee)
        }

        func unseal(_ sealed: TPMSlot.Sealed, _ authorization: [UInt8]) throws(LockboxError) -> [UInt8] {
            let (context, none) = (tpm.context, tpm.none)
            var (sealed, object) = (sealed, none)
            let loaded =
                Esys_Load(context, key, handle, none, none, &sealed.privateArea, &sealed.publicArea, &object)
            try tpm.check(loaded, "Esys_Load")
            defer { tpm.flush(object) }
            var data: UnsafeMutablePointer<TPM2B_SENSITIVE_DATA>?
            let answer = withAuthorization(authorization, of: object) {
                Esys_Unseal(context, object, handle, none, none, &data)
            }
            tpm_forget_answer(context, key)
            try tpm.check(answer, "Esys_Unseal")
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

        private func withAuthorization(_ key: [UInt8], of object: ESYS_TR, _ body: () -> TSS2_RC) -> TSS2_RC {
            withWiped(TPM2B_AUTH()) { authorization in
                authorization.pointee.set(key)
                Esys_TR_SetAuth(tpm.context, object, authorization)
                defer {
                    authorization.pointee = TPM2B_AUTH()
                    Esys_TR_SetAuth(tpm.context, object, authorization)
                }
                return body()
            }
        }
    }

    extension TPM2B_DIGEST {
        /// Without the zeros at the end, as TPMs drop them.
        fileprivate mutating func set(_ key: [UInt8]) {
            size = UInt16((key.lastIndex { $0 != 0 } ?? -1) + 1)
            withUnsafeMutableBytes(of: &buffer) { $0.copyBytes(from: key) }
        }
    }

    extension TPMConnection {
        /// Calls `body` with a session, and ends it.
        ///
        /// - Parameter name: The name of the storage root key in a slot; nil for a new slot.
        func withSession<Result>(
            named name: [UInt8]? = nil,
            _ body: (TPMSession) throws(LockboxError) -> Result
        ) throws(LockboxError)
            -> Result
        {
            try withStorageRootKey(named: name) { key throws(LockboxError) in
                var session = none
                try check(tpm_start_session(context, key, &session), "Esys_StartAuthSession")
                defer { flush(session) }
                return try body(TPMSession(tpm: self, key: key, handle: session))
            }
        }

        // MARK: The storage root key

        /// Where the TCG's provisioning guidance has the storage root key.
        private static let storageRootKey: TPM2_HANDLE = 0x8100_0001

        /// The key is the one that the TPM keeps, or otherwise the one that it derives. Both are looked at, as a system may
        /// begin to keep one later.
        func withStorageRootKey<Result>(
            named name: [UInt8]? = nil,
            _ body: (ESYS_TR) throws(LockboxError) -> Result
        )
            throws(LockboxError)
            -> Result
        {
            if var kept = try object(at: TPMConnection.storageRootKey) {
                defer { Esys_TR_Close(context, &kept) }
                let found = try verifiedName(of: kept)
                if name == nil || found == name { return try body(kept) }
            }
            var made = none
            try check(tpm_make_storage_root_key(context, &made), "Esys_CreatePrimary")
            defer { flush(made) }
            if let name, try verifiedName(of: made) != name { throw failure(TPMError.otherTPM) }
            return try body(made)
        }

        /// Returns the name of a key that tpm2-tss encrypts to, computed from the key itself.
        ///
        /// tpm2-tss takes the name of a kept key from the TPM's answer, and does not check that it is the hash of the public
        /// area in the same answer. An attacker on the bus could send the right name with a key of their own, and decrypt the
        /// session.
        func verifiedName(of key: ESYS_TR) throws(LockboxError) -> [UInt8] {
            var (bytes, count) = (UnsafeMutablePointer<UInt8>?.none, 0)
            try check(Esys_TR_Serialize(context, key, &bytes, &count), "Esys_TR_Serialize")
            defer { Esys_Free(bytes) }
            // A handle, the name, a number for the type, and the public area, which is the last part.
            var offset = 4
            var name = TPM2B_NAME()
            guard let bytes, Tss2_MU_TPM2B_NAME_Unmarshal(bytes, count, &offset, &name) == 0,
                offset + 6 <= count,
                6 + offset + Int(bytes[offset + 4]) << 8 + Int(bytes[offset + 5]) == count
            else { throw failure("tpm2-tss does not show the storage root key") }
            let area = UnsafeRawBufferPointer(start: bytes + offset + 6, count: count - offset - 6)
            let sha256: [UInt8] = [0x00, 0x0b]
            guard name.bytes == sha256 + Sodium.sha256(area) else {
                throw failure(
                    "the name of the storage root key does not belong to the key. "
                        + "An attacker may have changed what the TPM has sent"
                )
            }
            return name.bytes
        }
    }
#endif
