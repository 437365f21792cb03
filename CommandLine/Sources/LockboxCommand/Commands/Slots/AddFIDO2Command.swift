import ArgumentParser
import Lockbox

struct AddFIDO2Command: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fido2",
        abstract: "Add a FIDO2 security key that supports hmac-secret.",
        discussion: """
            The key has to be touched twice now, and once for each unlock. Its PIN is asked for if it has one. \
            Without --all-classes it opens the afterFirstUnlock classes only. The store must have a recovery \
            code, because a key can be lost.

            Example: lockbox slots add fido2 --label "the blue key" --all-classes
            """
    )

    @OptionGroup var slot: NewSlotOptions
    @OptionGroup var hardware: HardwareOptions
    @OptionGroup var recovery: RecoveryOptions
    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store(unlockedBy: recovery.secret)
        try store.checkOwner()
        let key = hardware.hardware(.fido2)
        let method = try key.method(pin: key.presentPIN)
        key.announce()
        try store.add(method, "security key", slot)
    }
}
