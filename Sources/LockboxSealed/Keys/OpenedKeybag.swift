import LockboxCore
import LockboxSodium

/// A keybag that has been read, and its open keys.
struct OpenedKeybag {
    let keybag: Keybag
    let keyring: Keyring
    /// Held while unlocked. Opens the keys that another process adds when it rotates.
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

    /// Returns the same keybag with other keys open.
    func with(_ keys: [Keyring.Entry], passcodeKey: SecretKey?) throws(RecordError) -> OpenedKeybag {
        try OpenedKeybag(keybag, keys, passcodeKey: passcodeKey, revision: keyring.revision)
    }
}
