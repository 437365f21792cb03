import ArgumentParser
import Lockbox

struct AddTPMCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tpm",
        abstract: "Add this machine's TPM 2.0, with a PIN or without.",
        discussion: """
            The TPM keeps a secret that only it can open, and counts wrong PINs. Without a PIN, everyone who may \
            use the TPM of this machine opens the slot. Without --all-classes it opens the afterFirstUnlock \
            classes only. The store must have a recovery code, because a TPM can be cleared.

            Example: lockbox slots add tpm --label laptop --all-classes
            """
    )

    @Flag(help: "Add the slot without a PIN.")
    var withoutPin = false

    @OptionGroup var slot: NewSlotOptions
    @OptionGroup var hardware: HardwareOptions
    @OptionGroup var recovery: RecoveryOptions
    @OptionGroup var options: StoreOptions

    func validate() throws {
        if withoutPin, hardware.pinFile != nil {
            throw ValidationError("Give --pin-file or --without-pin, not both.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: recovery.secret)
        try store.checkOwner()
        let pin =
            try withoutPin
            ? nil : SecretInput.new("PIN", file: hardware.pinFile, option: "--pin-file")
        try store.add(hardware.hardware(.tpm).method(pin: pin), "TPM", slot)
    }
}
