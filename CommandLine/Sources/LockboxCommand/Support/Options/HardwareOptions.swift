import ArgumentParser
import Lockbox

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
