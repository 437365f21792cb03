import ArgumentParser
import Lockbox

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
            throw Failure.invalidKey(source, reason)
        }
    }
}
