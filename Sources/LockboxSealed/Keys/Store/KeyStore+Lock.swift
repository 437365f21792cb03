import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Passcode, lock and unlock: which keys are open, and for which processes.
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

    /// Nil if the store is locked or has no passcode.
    var unlockScope: UnlockScope? {
        get throws {
            guard try keyring(creating: false) != nil else { return nil }
            let own = try own()
            if own.keybag.passcode == nil { return nil }
            if own.keyring.isOpen(.whenUnlocked) { return .process }
            return try withUserUnlock(own).keyring.isOpen(.whenUnlocked) ? .user : nil
        }
    }

    /// Runs Argon2id once, without holding a lock.
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

    /// Puts the keys into the kernel only, so that a lock by another process takes effect in this one. Returns
    /// false if the kernel refuses, or if the passcode has changed meanwhile.
    ///
    /// Takes a turn to commit, because a process that rewrites the keybag also replaces the kernel's records.
    private func unlockForUser(_ key: SecretKey, of block: PasscodeBlock, _ timeout: Duration?) throws -> Bool
    {
        let turn = try takeTurnIfAllowed()
        defer { turn?.release() }
        let own = try own()
        guard own.keybag.passcode == block else { return false }
        // If it fails half way, nothing is unlocked.
        do { return try publish(own, key, timeout) } catch {
            _ = try? userUnlock.remove(own.keybag.storeID)
            throw error
        }
    }

    /// Also returns nil if this process has no permission to write.
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
        // The kernel took the keys but does not return them, so they are useless.
        try userUnlock.remove(own.keybag.storeID)
        return false
    }

    /// Wipes the keys that only an unlock brings back, first in this process, then for the user's other
    /// processes.
    func lock(includingAfterFirstUnlock: Bool) throws {
        try changes.withLock {
            let forgotten = try forget { includingAfterFirstUnlock ? $0.isGuarded : $0.isWipedByLock }
            guard let store = forgotten?.keybag.storeID else { return }
            let levels = includingAfterFirstUnlock ? SharedUnlock.Level.allCases : [.unlocked]
            guard try userUnlock.remove(store, levels) else { return }
            // A process that is rewriting the keybag puts back the records that it found. Remove them again
            // when it is done.
            let turn = try takeTurnIfAllowed()
            defer { turn?.release() }
            _ = try userUnlock.remove(store, levels)
        }
    }

    /// Reads nothing if there are keys to wipe, so that no read error can prevent it.
    private func forget(_ isForgotten: (KeyRole) -> Bool) throws -> OpenedKeybag? {
        forgetUserKeys()
        // Another process may have set a passcode meanwhile.
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
