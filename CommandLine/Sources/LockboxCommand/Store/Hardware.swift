import ArgumentParser
import Lockbox

/// A TPM or a security key that unlocks a store.
struct Hardware {
    enum Kind {
        case tpm, fido2

        /// How messages name it.
        var name: String { self == .tpm ? "TPM" : "security key" }

        var slot: SlotKind { self == .tpm ? .tpm : .fido2 }
    }

    let kind: Kind
    let pinFile: String?
    let device: String?

    /// The PIN, which is read, or asked for, only if it is needed.
    var presentPIN: PasscodeSource {
        if let pinFile { return .file(pinFile) }
        let question = "PIN of the \(kind.name): "
        return .closure {
            let typed = try Terminal.secret(
                question,
                otherwise: "A PIN is needed, but there is no terminal to read it from: use --pin-file."
            )
            return Array(typed.bytes)
        }
    }

    /// - Parameter pin: nil for a new slot without one.
    func method(pin: PasscodeSource?) throws -> any UnlockMethod {
        switch kind {
        case .tpm: try tpm(pin)
        case .fido2: try securityKey(pin)
        }
    }

    /// Says what the user has to do next.
    func announce() {
        if kind == .fido2 { Output.note("lockbox: Touch the security key when it blinks.") }
    }
}

#if TPM

    import LockboxTPM

    extension Hardware {
        private func tpm(_ pin: PasscodeSource?) throws -> any UnlockMethod {
            TPMUnlock(pin: pin, tcti: device ?? TPMUnlock.defaultTCTI)
        }
    }

#else

    extension Hardware {
        private func tpm(_ pin: PasscodeSource?) throws -> any UnlockMethod {
            throw Extension.missing("TPMs", "--with-hardware")
        }
    }

#endif

#if FIDO2

    import LockboxFIDO2

    extension Hardware {
        private func securityKey(_ pin: PasscodeSource?) throws -> any UnlockMethod {
            FIDO2Unlock(device: device, pin: pin)
        }
    }

#else

    extension Hardware {
        private func securityKey(_ pin: PasscodeSource?) throws -> any UnlockMethod {
            throw Extension.missing("security keys", "--with-hardware")
        }
    }

#endif

/// Options for a TPM or a security key.
struct HardwareOptions: ParsableArguments {
    @Option(help: "Read the PIN of the TPM or the security key from this file.", completion: .file())
    var pinFile: String?

    @Option(
        help: ArgumentHelp(
            "The TPM, as a TCTI of tpm2-tss. (default: device:/dev/tpmrm0)",
            valueName: "tcti"
        )
    )
    var tpmDevice: String?

    @Option(
        help: ArgumentHelp(
            "The security key, as `fido2-token -L` lists it. (default: the first one found)",
            valueName: "device"
        ),
        completion: .file()
    )
    var fido2Device: String?

    func hardware(_ kind: Hardware.Kind) -> Hardware {
        Hardware(kind: kind, pinFile: pinFile, device: kind == .tpm ? tpmDevice : fido2Device)
    }
}
