#if TPM
    import CTSS2
    import LockboxCore
    import LockboxPlatform

    enum TPMError {
        /// What a TPM answers, without the number of the handle, the session or the parameter.
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

        static func check(_ code: TSS2_RC, _ operation: String, _ endpoint: String) throws(LockboxError) {
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
                return .notReachable(endpoint: tcti, reason: text(code, "Tss2_TctiLdr_Initialize"))
            }
            let path = String(tcti.dropFirst("device:".count))
            let descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
            let cause = descriptor < 0 ? errno : 0
            if descriptor >= 0 { close(descriptor) }
            switch cause {
            case EACCES, EPERM:
                return .accessDenied(
                    endpoint: tcti,
                    reason: "this user may not open it. Add the user to the group that owns it, usually tss"
                )
            case ENOENT, ENXIO, ENODEV:
                return .notReachable(
                    endpoint: tcti,
                    reason: "this machine has no TPM, or it is turned off in the firmware"
                )
            case EBUSY: return .notReachable(endpoint: tcti, reason: "another program uses it")
            case 0: return .notReachable(endpoint: tcti, reason: text(code, "Tss2_TctiLdr_Initialize"))
            default: return .notReachable(endpoint: tcti, reason: String(cString: strerror(cause)))
            }
        }

        private static func text(_ code: TSS2_RC, _ operation: String) -> String {
            "\(operation): \(Tss2_RC_Decode(code).map { String(cString: $0) } ?? "") (0x\(String(code, radix: 16)))"
        }
    }
#endif
