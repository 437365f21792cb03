import LockboxCore
import LockboxSodium

/// The keybag, as it was read, and what of it is open.
struct OpenedKeybag {
    let keybag: Keybag
    let keyring: Keyring
    /// While unlocked: opens the keys that a rotation by another process adds.
    let passcodeKey: SecretKey?

    init(
        _ keybag: Keybag,
        _ keys: [Keyring.Entry],
        passcodeKey: SecretKey?,
        revision: RecordRevision
    ) throws(RecordError) {
        self.keybag = keybag
        self.passcodeKey = passcodeKey
        keyring = try Keyring(keybag: keybag, keys: keys, revision: revision)
    }

    /// The same keybag with other keys open.
    func with(_ keys: [Keyring.Entry], passcodeKey: SecretKey?) throws(RecordError) -> OpenedKeybag {
        try OpenedKeybag(keybag, keys, passcodeKey: passcodeKey, revision: keyring.revision)
    }
}
