import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Passcode, lock and unlock: which keys are open, and for whom.
extension KeyStore {
    var lockState: LockState {
        get throws {
            guard try keyring(creating: false) != nil else { return .noPasscode }
            let opened = try current()
            if opened.keybag.passcode == nil { return .noPasscode }
            if opened.keyring.isOpen(.whenUnlocked) { return .unlocked }
            return opened.keyring.isOpen(.afterFirstUnlock) ? .locked : .beforeFirstUnlock
        }
    }

    /// Nil while the store is locked, and if it has no passcode.
    var unlockScope: UnlockScope? {
        get throws {
            guard try keyring(creating: false) != nil else { return nil }
            let own = try own()
            if own.keybag.passcode == nil { return nil }
            if own.keyring.isOpen(.whenUnlocked) { return .process }
            return try withUserUnlock(own).keyring.isOpen(.whenUnlocked) ? .user : nil
        }
    }

    /// One run of Argon2id, outside every lock.
    func unlock(_ passcode: PasscodeSource, scope: UnlockScope, timeout: Duration?) throws -> UnlockScope {
        while true {
            guard try keyring(creating: false) != nil else { return scope }
            guard let block = try own().keybag.passcode else { return scope }
            let key = try derive(passcode) { try block.key($0) }
            let reached = try changes.withLock { () -> UnlockScope? in
                // Another process may have changed the passcode meanwhile.
                guard try own().keybag.passcode == block else { return nil }
                let passcodeKey = try WrappingKeys.combine(key, device.read())
                if scope == .user, try unlockForUser(passcodeKey, of: block, timeout) { return .user }
                let opened = try load(passcodeKey: passcodeKey, of: block)
                return opened?.keybag.passcode == block ? .process : nil
            }
            if let reached { return reached }
        }
    }

    /// Leaves the keys to the kernel alone, so that a lock by another process reaches this one. False if it refuses, or if
    /// the passcode is another one by now.
    ///
    /// In turn with who rewrites the keybag, and replaces what it has found in the kernel.
    private func unlockForUser(_ key: SecretKey, of block: PasscodeBlock, _ timeout: Duration?) throws -> Bool
    {
        let turn = try takeTurnIfAllowed()
        defer { turn?.release() }
        let own = try own()
        guard own.keybag.passcode == block else { return false }
        // What throws half way has unlocked nothing.
        do { return try publish(own, key, timeout) } catch {
            _ = try? userUnlock.remove(own.keybag.storeID)
            throw error
        }
    }

    /// Nil also where this process may not write.
    private func takeTurnIfAllowed() throws -> (any CommitTurn)? {
        do { return try storage.takeTurn(in: nil) } catch let error as LockboxError where error.isRefusal {
            return nil
        }
    }

    private func publish(_ own: OpenedKeybag, _ key: SecretKey, _ timeout: Duration?) throws -> Bool {
        let device = try device.read()
        let keys = try faults(of: Self.keybagRecord) {
            try own.keybag.unwrap(with: WrappingKeys(device: device, passcode: key))
        }
        let isPublished = try userUnlock.publish(
            own.keybag,
            keys,
            passcodeKey: key,
            deadline: UserUnlock.deadline(after: timeout),
            device: device
        )
        guard isPublished else { return false }
        let kept = try forget(\.isWipedByLock) ?? own
        if try withUserUnlock(kept).keyring.isComplete { return true }
        // A kernel that takes a key and does not give it back is of no use.
        try userUnlock.remove(own.keybag.storeID)
        return false
    }

    /// Forgets, and wipes, what only an unlock gives back; here first, then for the user's other processes.
    func lock(includingAfterFirstUnlock: Bool) throws {
        try changes.withLock {
            let forgotten = try forget { includingAfterFirstUnlock ? $0.isGuarded : $0.isWipedByLock }
            guard let store = forgotten?.keybag.storeID else { return }
            let levels = includingAfterFirstUnlock ? SharedUnlock.Level.allCases : [.unlocked]
            guard try userUnlock.remove(store, levels) else { return }
            // Who rewrites the keybag at this moment puts back what it has found: once more when it is done.
            let turn = try takeTurnIfAllowed()
            defer { turn?.release() }
            _ = try userUnlock.remove(store, levels)
        }
    }

    /// Reads nothing if there is something to wipe, so that nothing keeps it from being wiped.
    private func forget(_ isForgotten: (KeyRole) -> Bool) throws -> OpenedKeybag? {
        forgetUserKeys()
        // Another process may have set a passcode since.
        if opened.withLock({ $0?.keybag.passcode }) == nil { _ = try load() }
        guard let opened = opened.withLock({ $0 }), opened.keybag.passcode != nil else {
            return opened.withLock { $0 }
        }
        let kept = try opened.with(opened.keyring.keys { !isForgotten($0) }, passcodeKey: nil)
        self.opened.withLock { $0 = kept }
        return kept
    }
}

extension KeyRole {
    fileprivate var isWipedByLock: Bool {
        switch self {
        case .classKey(.whenUnlocked), .classKey(.whenUnlockedThisDeviceOnly),
            .classKey(.whenPasscodeSetThisDeviceOnly):
            true
        default: false
        }
    }
}
