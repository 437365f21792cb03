#if FIDO2
    import CFIDO2
    import LockboxCore
    import LockboxPlatform

    enum SecurityKeyError {
        static func check(_ code: CInt, _ endpoint: String) throws {
            guard code != FIDO_OK else { return }
            throw error(code, endpoint)
        }

        private static func error(_ code: CInt, _ endpoint: String) -> LockboxError {
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

        private static func denied(_ endpoint: String, _ reason: String) -> LockboxError {
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
                    path,
                    "this user may not open it. Install the udev rules of libfido2, or use a group for it"
                )
            case ENOENT, ENXIO, ENODEV:
                return .notReachable(endpoint: path, reason: "there is no such device")
            default: return error(code, path)
            }
        }
    }
#endif
