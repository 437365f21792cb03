import LockboxCore
import LockboxFiles
import LockboxSodium

/// Operations that rewrite the keybag: passcode changes and key rotation.
extension KeyStore {
    func setPasscode(_ passcode: PasscodeSource, strength: PasscodeStrength) throws {
        _ = try keyring(creating: true)
        guard try current().keybag.passcode == nil else { throw LockboxError.passcodeAlreadySet }
        let (block, key) = try derive(passcode) { try PasscodeBlock.make($0, strength: strength) }
        try rewrite { opened, device in
            guard opened.keybag.passcode == nil else { throw LockboxError.passcodeAlreadySet }
            let slot = Keyring.Slot(.classKey(.whenPasscodeSetThisDeviceOnly), opened.keybag.epoch)
            let keys = opened.keyring.keys { _ in true } + [(slot, try .random())]
            return try NextKeybag(opened.keybag, block, keys, key, device)
        }
    }

    /// Needs no old passcode: an unlocked store's keys are all in memory.
    func changePasscode(to passcode: PasscodeSource, strength: PasscodeStrength) throws {
        try checkIsUnlocked()
        let (block, key) = try derive(passcode) { try PasscodeBlock.make($0, strength: strength) }
        try rewrite { opened, device in
            try check(isUnlocked: opened)
            return try NextKeybag(opened.keybag, block, opened.keyring.keys { _ in true }, key, device)
        }
    }

    func removePasscode() throws {
        try checkIsUnlocked()
        try rewrite { opened, device in
            try check(isUnlocked: opened)
            let keys = opened.keyring.keys { $0 != .classKey(.whenPasscodeSetThisDeviceOnly) }
            return try NextKeybag(opened.keybag, nil, keys, nil, device)
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

    /// Adds new keys for every class, which seal items from now on. Does nothing if a rotation is in progress:
    /// that one is resumed.
    func beginRotation() throws {
        try rewrite { opened, device in
            let hasPasscode = opened.keybag.passcode != nil
            // Without the key, the store is locked, or another process has changed the passcode since the
            // unlock.
            if hasPasscode, opened.passcodeKey == nil {
                throw LockboxError.interactionNotAllowed(.whenUnlocked)
            }
            if opened.keybag.isRotating { return nil }
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
            return NextKeybag(keybag: keybag, keys: keys, passcodeKey: opened.passcodeKey)
        }
    }

    /// Removes the keys that no item uses any more, unless another process has started the next rotation, which
    /// may need them.
    func finishRotation(of epoch: UInt32) throws {
        try rewrite { opened, _ in
            guard opened.keybag.isRotating, opened.keybag.epoch == epoch else { return nil }
            let keybag = opened.keybag.dropping { $0.role != .names && $0.epoch != opened.keybag.epoch }
            let kept = Set(keybag.entries.map(\.slot))
            let keys = opened.keyring.keys { _ in true }.filter { kept.contains($0.slot) }
            return NextKeybag(keybag: keybag, keys: keys, passcodeKey: opened.passcodeKey)
        }
    }

    // MARK: The keybag

    /// Replaces the keybag with the one that `change` returns. Tries again if another process has replaced it
    /// meanwhile.
    private func rewrite(_ change: (OpenedKeybag, _ device: SecretKey) throws -> NextKeybag?) throws {
        try changes.withLock {
            let turn = try storage.takeTurn(in: nil)
            defer { turn?.release() }
            while true {
                let opened = try current()
                let device = try device.read()
                guard let next = try change(opened, device) else { return }
                if try replace(opened, by: next, device, turn) { return }
            }
        }
    }

    /// Replaces a keybag with another. An unlock for the user's other processes stays in effect.
    ///
    /// - Returns: false if another process has replaced the keybag meanwhile.
    private func replace(
        _ opened: OpenedKeybag,
        by next: NextKeybag,
        _ device: SecretKey,
        _ turn: (any CommitTurn)?
    ) throws -> Bool {
        let (keybag, passcodeKey) = (next.keybag, next.passcodeKey)
        let records = try userUnlock.records(of: opened.keybag, device: device)
        // Keys that came from the kernel continue to come from there.
        let isOwn = try own().keyring.isComplete
        if keybag.passcode != nil, let passcodeKey {
            userUnlock.announce(records, for: keybag, next.keys, passcodeKey: passcodeKey, device: device)
        }
        let record = Self.keybagRecord
        let change = RecordChange.put(record, keybag.encoded(deviceKey: device))
        switch try storage.commit([change], expecting: [record: opened.keyring.revision], turn: turn) {
        case .committed: break
        case .conflict: return false
        case .unknown(let error): throw error
        }
        _ = try load(passcodeKey: isOwn ? passcodeKey : nil)
        // Without the passcode's key, the kernel's records cannot be recreated. They are still valid.
        if keybag.passcode != nil, passcodeKey == nil { return true }
        try userUnlock.republish(
            records,
            for: keybag,
            next.keys,
            passcodeKey: passcodeKey,
            device: device
        )
        return true
    }
}

/// A keybag to be written, with its unwrapped keys.
private struct NextKeybag {
    let keybag: Keybag
    let keys: [Keyring.Entry]
    let passcodeKey: SecretKey?
}

extension NextKeybag {
    /// Creates a keybag with another passcode. Its keys stay the same, so no item has to be resealed.
    init(
        _ old: Keybag,
        _ block: PasscodeBlock?,
        _ keys: [Keyring.Entry],
        _ key: SecretKey?,
        _ device: SecretKey
    ) throws {
        passcodeKey = try key.map { try WrappingKeys.combine($0, device) }
        keybag = old.next(
            passcode: block,
            epoch: old.epoch,
            keys: keys,
            wrappedBy: WrappingKeys(device: device, passcode: passcodeKey)
        )
        self.keys = keys
    }
}
