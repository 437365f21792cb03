import LockboxCore
import LockboxSodium

/// The keybag, as it was read, and what of it is open.
struct OpenedKeybag {
    let keybag: Keybag
    let keyring: Keyring
    /// While unlocked: opens the keys that a rotation by another process adds.
    let passcodeKey: SecretKey?
    let revision: RecordRevision

    func with(_ keys: [Keyring.Entry], passcodeKey: SecretKey?) throws -> OpenedKeybag {
        OpenedKeybag(
            keybag: keybag,
            keyring: try Keyring(keybag: keybag, keys: keys),
            passcodeKey: passcodeKey,
            revision: revision
        )
    }
}

/// What was found in the kernel, which keyring it was added to, and what came of it.
struct SharedKeybag {
    let found: UserUnlock.Found
    let own: Keyring
    let opened: OpenedKeybag
}
