import ArgumentParser
import Lockbox

/// The options for everything that can unlock a store instead of its passcode.
struct UnlockOptions: ParsableArguments {
    @OptionGroup var recovery: RecoveryOptions

    @Option(help: "Unlock with the key in this file. The store must have a slot for it.", completion: .file())
    var keyFile: String?

    @Option(help: "Unlock with the key in this systemd credential. The store must have a slot for it.")
    var keyCredential: String?

    @Flag(
        help:
            "Unlock with this machine's TPM. The store must have a slot for it. Asks for the PIN if the slot has one."
    )
    var tpm = false

    @Flag(help: "Unlock with a FIDO2 security key, which must be touched. The store must have a slot for it.")
    var fido2 = false

    @OptionGroup var hardware: HardwareOptions

    func validate() throws {
        let given = [recovery.secret != nil, keyFile != nil, keyCredential != nil, tpm, fido2]
        if given.count(where: \.self) > 1 {
            throw ValidationError("Give one recovery code, one key, or one of --tpm and --fido2.")
        }
    }

    var secret: OtherSecret? {
        if let keyFile { return .key(.file(keyFile)) }
        if let keyCredential { return .key(.credential(keyCredential)) }
        if tpm { return .hardware(hardware.hardware(.tpm)) }
        if fido2 { return .hardware(hardware.hardware(.fido2)) }
        return recovery.secret
    }
}
