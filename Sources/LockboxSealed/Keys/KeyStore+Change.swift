import LockboxCore
import LockboxFiles
import LockboxSodium

/// Another passcode, and new keys: what rewrites the keybag.
extension KeyStore {
    func setPasscode(_ passcode: Passcode, strength: PasscodeStrength) throws {
        _ = try keyring(creating: true)
        guard try current().keybag.passcode == nil else { throw LockboxError.passcodeAlreadySet }
        let (block, key) = try derive(passcode) { try PasscodeBlock.make($0, strength: strength) }
        try rewrite { opened in
            guard opened.keybag.passcode == nil else { throw LockboxError.passcodeAlreadySet }
            let slot = Keyring.Slot(.classKey(.whenPasscodeSetThisDeviceOnly), opened.keybag.epoch)
            let keys = opened.keyring.keys { _ in true } + [(slot, try .random())]
            return (block, keys, key)
        }
    }

    /// Only what is unlocked can be wrapped anew: who can do this has every key already.
    func changePasscode(to passcode: Passcode, strength: PasscodeStrength) throws {
        try checkIsUnlocked()
        let (block, key) = try derive(passcode) { try PasscodeBlock.make($0, strength: strength) }
        try rewrite { opened in
            try check(isUnlocked: opened)
            return (block, opened.keyring.keys { _ in true }, key)
        }
    }

    func removePasscode() throws {
        try checkIsUnlocked()
        try rewrite { opened in
            try check(isUnlocked: opened)
            return (nil, opened.keyring.keys { $0 != .classKey(.whenPasscodeSetThisDeviceOnly) }, nil)
        }
    }

    private func checkIsUnlocked() throws {
        guard try keyring(creating: false) != nil else { throw LockboxError.passcodeNotSet }
        try check(isUnlocked: current())
    }

    private func check(isUnlocked opened: OpenedKeybag) throws {
        if opened.keybag.passcode == nil { throw LockboxError.passcodeNotSet }
        if !opened.keyring.isComplete { throw LockboxError.interactionNotAllowed(.whenUnlocked) }
    }

    // MARK: Rotation

    /// Adds new keys for every class, under which items are sealed from now on; unless a rotation is under way, which
    /// is to be carried on.
    func beginRotation() throws {
        try changes.withLock {
            try storage.withLock(on: nil) {
                let opened = try current()
                let hasPasscode = opened.keybag.passcode != nil
                // Without it the store is locked, or another process has changed the passcode since this one unlocked it.
                if hasPasscode, opened.passcodeKey == nil {
                    throw LockboxError.interactionNotAllowed(.whenUnlocked)
                }
                if opened.keybag.isRotating { return }
                let device = try deviceKey()
                let epoch = opened.keybag.epoch + 1
                let keys =
                    try opened.keyring.keys { _ in true }
                    + Keybag.newKeys(epoch: epoch, hasPasscode: hasPasscode)
                let keybag = opened.keybag.next(
                    passcode: opened.keybag.passcode,
                    epoch: epoch,
                    keys: keys,
                    wrappedBy: WrappingKeys(device: device, passcode: opened.passcodeKey)
                )
                try replace(opened, by: keybag, keys, passcodeKey: opened.passcodeKey, device)
            }
        }
    }

    /// Drops the keys that no item is sealed under any more; unless another process has begun the next rotation since, which
    /// may need them.
    func finishRotation(of epoch: UInt32) throws {
        try changes.withLock {
            try storage.withLock(on: nil) {
                let opened = try current()
                guard opened.keybag.isRotating, opened.keybag.epoch == epoch else { return }
                let keybag = opened.keybag.dropping { $0.role != .names && $0.epoch != opened.keybag.epoch }
                let kept = Set(keybag.entries.map(\.slot))
                let keys = opened.keyring.keys { _ in true }.filter { kept.contains($0.slot) }
                try replace(opened, by: keybag, keys, passcodeKey: opened.passcodeKey, deviceKey())
            }
        }
    }

    /// Replaces the keybag by one with another passcode: one file, whatever the number of items.
    private func rewrite(
        _ change: (OpenedKeybag) throws -> (PasscodeBlock?, [Keyring.Entry], passcodeKey: SecretKey?)
    ) throws {
        try changes.withLock {
            try storage.withLock(on: nil) {
                let opened = try current()
                let device = try deviceKey()
                let (block, keys, key) = try change(opened)
                let wrapping = WrappingKeys(
                    device: device,
                    passcode: try key.map { try WrappingKeys.combine($0, device) }
                )
                let keybag = opened.keybag.next(
                    passcode: block,
                    epoch: opened.keybag.epoch,
                    keys: keys,
                    wrappedBy: wrapping
                )
                try replace(opened, by: keybag, keys, passcodeKey: wrapping.passcode, device)
            }
        }
    }

    /// Puts a keybag in the place of another. For the user's other processes the store stays as open as it was.
    private func replace(
        _ opened: OpenedKeybag,
        by keybag: Keybag,
        _ keys: [Keyring.Entry],
        passcodeKey: SecretKey?,
        _ device: SecretKey
    ) throws {
        let records = try userUnlock.records(of: opened.keybag, device: device)
        // Who has the keys from the kernel goes on having them from there.
        let isOwn = try own().keyring.isComplete
        if keybag.passcode != nil, let passcodeKey {
            userUnlock.announce(records, for: keybag, keys, passcodeKey: passcodeKey, device: device)
        }
        try write(keybag, device)
        _ = try load(passcodeKey: isOwn ? passcodeKey : nil)
        // Without the passcode's key what is in the kernel cannot be made anew, and is still right.
        if keybag.passcode != nil, passcodeKey == nil { return }
        try userUnlock.republish(records, for: keybag, keys, passcodeKey: passcodeKey, device: device)
    }
}
