#if FIDO2
    import CFIDO2
    import LockboxCore
    import LockboxPlatform
    import LockboxSodium

    /// A security key that is open for one call.
    struct OpenSecurityKey {
        let endpoint: String
        let device: OpaquePointer

        var hasPIN: Bool { fido_dev_has_pin(device) }
        /// A fingerprint, or something else that the key checks by itself.
        var hasUserVerification: Bool { fido_dev_has_uv(device) }

        /// Checks that the key knows `hmac-secret`.
        func checkHasSecrets() throws {
            var information = fido_cbor_info_new()
            defer { fido_cbor_info_free(&information) }
            if fido_dev_is_fido2(device) {
                try check(fido_dev_get_cbor_info(device, information))
                let names = fido_cbor_info_extensions_ptr(information)
                for index in 0..<fido_cbor_info_extensions_len(information) {
                    if let name = names?[index], strcmp(name, "hmac-secret") == 0 { return }
                }
            }
            throw LockboxError.notSupported(operation: "hmac-secret on this security key")
        }

        func makeCredential(pin: UnsafePointer<CChar>?, isVerified: Bool) throws -> [UInt8] {
            var credential = fido_cred_new()
            defer { fido_cred_free(&credential) }
            let (challenge, user) = (Sodium.randomBytes(32), Sodium.randomBytes(32))
            let name = FIDO2Unlock.relyingParty
            try check(fido_cred_set_type(credential, COSE_ES256))
            try check(fido_cred_set_clientdata_hash(credential, challenge, challenge.count))
            try check(fido_cred_set_rp(credential, name, name))
            try check(fido_cred_set_user(credential, user, user.count, name, nil, nil))
            try check(fido_cred_set_extensions(credential, FIDO_EXT_HMAC_SECRET))
            try check(fido_cred_set_rk(credential, FIDO_OPT_FALSE))
            if isVerified, pin == nil { try check(fido_cred_set_uv(credential, FIDO_OPT_TRUE)) }
            try check(fido_dev_make_cred(device, credential, pin))
            let id = UnsafeBufferPointer(
                start: fido_cred_id_ptr(credential),
                count: fido_cred_id_len(credential)
            )
            return Array(id)
        }

        /// Returns the credential's secret for a salt, and whether the key has verified its user. It has another secret if
        /// it has not.
        func secret(
            of credential: [UInt8],
            salt: [UInt8],
            pin: UnsafePointer<CChar>?,
            isVerified: Bool
        ) throws -> (secret: [UInt8], isVerified: Bool) {
            var assertion = fido_assert_new()
            defer { fido_assert_free(&assertion) }  // which wipes it
            let challenge = Sodium.randomBytes(32)
            try check(fido_assert_set_rp(assertion, FIDO2Unlock.relyingParty))
            try check(fido_assert_set_clientdata_hash(assertion, challenge, challenge.count))
            try check(fido_assert_set_extensions(assertion, FIDO_EXT_HMAC_SECRET))
            try check(fido_assert_set_hmac_salt(assertion, salt, salt.count))
            try check(fido_assert_allow_cred(assertion, credential, credential.count))
            try check(fido_assert_set_up(assertion, FIDO_OPT_TRUE))
            if isVerified, pin == nil { try check(fido_assert_set_uv(assertion, FIDO_OPT_TRUE)) }
            try check(fido_dev_get_assert(device, assertion, pin))
            guard fido_assert_count(assertion) == 1,
                fido_assert_hmac_secret_len(assertion, 0) == SecretKey.length,
                let secret = fido_assert_hmac_secret_ptr(assertion, 0)
            else {
                throw LockboxError.notSupported(operation: "hmac-secret on this security key")
            }
            let verified: UInt8 = 4
            return (
                Array(UnsafeBufferPointer(start: secret, count: SecretKey.length)),
                fido_assert_flags(assertion, 0) & verified != 0
            )
        }

        private func check(_ code: CInt) throws { try SecurityKeyError.check(code, endpoint) }
    }
#endif
