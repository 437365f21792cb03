import LockboxCore

/// Caches what the kernel's records open with a given keyring, because the kernel is asked at every access.
struct UserRecords {
    let own: Keyring
    /// `opened` is nil for a record that opens nothing: it belongs to another passcode or is damaged.
    var outcomes: [(record: UserUnlock.Found, opened: OpenedKeybag?)] = []
}
