import LockboxCore

/// Caches what the kernel's records open with a given keyring, because the kernel is asked at every access.
struct UserRecords {
    let own: Keyring
    /// `opened` is nil for a record that opens nothing: it belongs to another passcode or is damaged.
    var outcomes: [Outcome] = []

    struct Outcome {
        let record: UserUnlock.Found
        let opened: OpenedKeybag?
        /// The kernel may keep a record longer: another process can change its time there.
        var deadline: UInt64 = 0
    }
}
