#if FIDO2
    import CFIDO2
    import LockboxCore
    import LockboxPlatform
    @_spi(Extensions) import LockboxStore

    /// Where a security key is.
    struct SecurityKey: Sendable {
        /// nil: the first one that is found.
        let path: String?
        /// Called before the key is opened. Tests put theirs in the place of the device.
        var prepare: @Sendable (OpaquePointer) -> Void = { _ in }

        private static let ready: Void = fido_init(0)
        private static let milliseconds: CInt = 60_000

        /// Opens the key, and closes it after `body`.
        func withOpen<Result>(_ body: (OpenSecurityKey) throws -> Result) throws -> Result {
            _ = Self.ready
            let path = try path ?? first()
            var device = fido_dev_new()
            guard let opened = device else { throw LockboxError.notEnoughMemory(bytes: 4096) }
            defer { fido_dev_free(&device) }
            prepare(opened)
            let code = fido_dev_open(opened, path)
            guard code == FIDO_OK else { throw SecurityKeyError.cannotOpen(path, code) }
            defer { fido_dev_close(opened) }
            fido_dev_set_timeout(opened, Self.milliseconds)
            return try body(OpenSecurityKey(endpoint: .other(path), device: opened))
        }

        private func first() throws -> String {
            var list = fido_dev_info_new(1)
            defer { fido_dev_info_free(&list, 1) }
            var count = 0
            guard fido_dev_info_manifest(list, 1, &count) == FIDO_OK, count > 0,
                let path = fido_dev_info_path(fido_dev_info_ptr(list, 0))
            else {
                throw LockboxError.notReachable(
                    endpoint: "The security key",
                    reason: "none was found; plug one in, and check that this user may open it"
                )
            }
            return String(cString: path)
        }
    }

    /// A security key that is open for one call.
    struct OpenSecurityKey {
        let endpoint: LockboxError.Subject
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
            defer { fido_assert_free(&assertion) }  // this wipes it
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

    enum SecurityKeyError {
        static func check(_ code: CInt, _ endpoint: LockboxError.Subject) throws {
            guard code != FIDO_OK else { return }
            throw error(code, endpoint)
        }

        private static func error(_ code: CInt, _ endpoint: LockboxError.Subject) -> LockboxError {
            switch code {
            case FIDO_ERR_PIN_INVALID, FIDO_ERR_UV_INVALID: .wrongPasscode
            case FIDO_ERR_PIN_AUTH_BLOCKED:
                denied(
                    endpoint,
                    "it refuses PINs after three wrong ones. Unplug it, plug it in, and try again"
                )
            case FIDO_ERR_PIN_BLOCKED:
                denied(
                    endpoint,
                    "its PIN is blocked until the key is reset, which destroys its secrets. Use the recovery code"
                )
            case FIDO_ERR_UV_BLOCKED:
                denied(endpoint, "it refuses fingerprints after too many wrong ones. Use the PIN")
            case FIDO_ERR_PIN_REQUIRED, FIDO_ERR_UNAUTHORIZED_PERM:
                .invalidPasscode(reason: "the security key needs its PIN, and none was given")
            case FIDO_ERR_PIN_NOT_SET:
                .invalidPasscode(reason: "the security key has no PIN. Set one with fido2-token -S")
            case FIDO_ERR_PIN_POLICY_VIOLATION, FIDO_ERR_INVALID_ARGUMENT:
                .invalidPasscode(reason: "a security key's PIN has 4 to 63 bytes")
            case FIDO_ERR_NO_CREDENTIALS, FIDO_ERR_INVALID_CREDENTIAL:
                .notReachable(
                    endpoint: endpoint,
                    reason:
                        "this is another security key, or it was reset. Use the right one, or the recovery code"
                )
            case FIDO_ERR_UNSUPPORTED_EXTENSION, FIDO_ERR_UNSUPPORTED_OPTION, FIDO_ERR_INVALID_OPTION,
                FIDO_ERR_UNSUPPORTED_ALGORITHM:
                .notSupported(operation: "hmac-secret on this security key")
            case FIDO_ERR_USER_ACTION_TIMEOUT, FIDO_ERR_ACTION_TIMEOUT, FIDO_ERR_TIMEOUT:
                .notReachable(endpoint: endpoint, reason: "it was not touched in time; try again")
            case FIDO_ERR_OPERATION_DENIED, FIDO_ERR_KEEPALIVE_CANCEL: .userCanceled
            case FIDO_ERR_TX, FIDO_ERR_RX:
                .notReachable(endpoint: endpoint, reason: "it does not answer. Was it unplugged?")
            default: .notReachable(endpoint: endpoint, reason: "it answered \(text(code))")
            }
        }

        private static func denied(_ endpoint: LockboxError.Subject, _ reason: String) -> LockboxError {
            .accessDenied(endpoint: endpoint, reason: reason)
        }

        private static func text(_ code: CInt) -> String { "\(String(cString: fido_strerr(code))) (\(code))" }

        /// libfido2 does not say why it could not open a device. Opening it again does.
        static func cannotOpen(_ path: String, _ code: CInt) -> LockboxError {
            let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
            let cause = descriptor < 0 ? errno : 0
            if descriptor >= 0 { close(descriptor) }
            switch cause {
            case EACCES, EPERM:
                return denied(
                    .other(path),
                    "this user may not open it. Install the udev rules of libfido2, or use a group for it"
                )
            case ENOENT, ENXIO, ENODEV:
                return .notReachable(endpoint: .other(path), reason: "there is no such device")
            default: return error(code, .other(path))
            }
        }
    }
#endif
