import ArgumentParser
import Lockbox

/// What the commands share that add a slot.
struct NewSlotOptions: ParsableArguments {
    @Option(help: "A name for people.")
    var label: String

    @Flag(help: "The slot opens all classes.")
    var allClasses = false

    @OptionGroup var resealing: ResealingOptions
}

extension Store {
    /// - Parameter name: What unlocks the store from then on, for the report.
    fileprivate func add(_ method: any UnlockMethod, _ name: String, _ slot: NewSlotOptions) throws {
        try makingKeys("slots", later: slot.resealing.later) {
            try backend.addSlot(
                method,
                label: slot.label,
                opensAll: slot.allClasses,
                resealing: !slot.resealing.later,
                progress: $0
            )
        }
        try report("The \(name) unlocks \(slot.allClasses ? "all classes" : "the afterFirstUnlock classes").")
    }
}

struct AddKeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "key",
        abstract: "Add a key in a file or a systemd credential, for a service that starts without a person.",
        discussion: """
            The key is at least 32 random bytes, and not the device key. Without --all-classes it opens the \
            afterFirstUnlock classes only. The store must have a recovery code, because a key can be lost.

            Example: lockbox slots add key --key-file /media/usb/key --label "the web server"
            """
    )

    @Option(help: "The file with the key.", completion: .file())
    var keyFile: String?

    @Option(help: "The systemd credential with the key.")
    var keyCredential: String?

    @OptionGroup var slot: NewSlotOptions
    @OptionGroup var recovery: RecoveryOptions
    @OptionGroup var options: StoreOptions

    func validate() throws {
        if (keyFile == nil) == (keyCredential == nil) {
            throw ValidationError("Give either --key-file or --key-credential.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: recovery.secret)
        try store.checkOwner()
        let key = keyFile.map { DeviceKeySource.file($0) } ?? .credential(keyCredential!)
        do { try store.add(.key(key), "key", slot) } catch LockboxError.invalidDeviceKey(
            let source,
            let reason
        ) {
            throw Failure(.damaged, "The key (\(source.onOneLine)) cannot be used: \(reason).")
        }
    }
}

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

    @Flag(help: "Without a PIN.")
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

struct AddFIDO2Command: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fido2",
        abstract: "Add a security key (FIDO2) that has hmac-secret.",
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
