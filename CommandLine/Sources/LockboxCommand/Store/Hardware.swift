import ArgumentParser
import Lockbox

#if TPM
    import LockboxTPM
#endif
#if FIDO2
    import LockboxFIDO2
#endif

/// A TPM or a security key that unlocks a store.
struct Hardware {
    /// `tpm` or `fido2`.
    let kind: SlotKind
    let pinFile: String?
    let device: String?

    /// How messages name it.
    var name: String { kind == .tpm ? "TPM" : "security key" }

    /// The PIN, which is read, or asked for, only if it is needed.
    var presentPIN: PasscodeSource {
        if let pinFile { return .file(pinFile) }
        let question = "PIN of the \(name): "
        return .closure {
            let otherwise = "A PIN is needed, but there is no terminal to read it from: use --pin-file."
            let typed = try Terminal.secret(question, otherwise: otherwise)
            return Array(typed.bytes)
        }
    }

    /// - Parameter pin: nil for a new slot without one.
    func method(pin: PasscodeSource?) throws -> any UnlockMethod {
        if kind == .tpm {
            #if TPM
                return TPMUnlock(pin: pin, tcti: device ?? TPMUnlock.defaultTCTI)
            #else
                throw Extension.missing("TPMs", "--with-hardware")
            #endif
        }
        #if FIDO2
            return FIDO2Unlock(device: device, pin: pin)
        #else
            throw Extension.missing("security keys", "--with-hardware")
        #endif
    }

    /// Says what the user has to do next.
    func announce() {
        if kind == .fido2 { Output.note("lockbox: Touch the security key when it blinks.") }
    }
}

/// Options for a TPM or a security key.
struct HardwareOptions: ParsableArguments {
    @Option(file: "Read the PIN of the TPM or the security key from this file.")
    var pinFile: String?

    @Option(help: .init("The TPM, as a TCTI of tpm2-tss. (default: device:/dev/tpmrm0)", valueName: "tcti"))
    var tpmDevice: String?

    @Option(
        help: .init(
            "The security key, as `fido2-token -L` lists it. (default: the first one found)",
            valueName: "device"
        ),
        completion: .file()
    )
    var fido2Device: String?

    var tpm: Hardware { Hardware(kind: .tpm, pinFile: pinFile, device: tpmDevice) }
    var securityKey: Hardware { Hardware(kind: .fido2, pinFile: pinFile, device: fido2Device) }
}
