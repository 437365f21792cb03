import Lockbox

/// How a command unlocks its store.
extension Store {
    /// Runs `body`. If it fails because the store is locked, unlocks the store and runs it again, so that an
    /// open store needs no key derivation.
    func unlocking<Result>(_ body: () throws -> Result) throws -> Result {
        try unlockIfGiven()
        do { return try body() } catch LockboxError.interactionNotAllowed {
            try unlock { _ = try backend.unlock(with: $0) }
            return try body()
        }
    }

    /// Unlocks the store with a secret that was given, also if it seems to be open: an unlock in the kernel may be forged, and so may
    /// a keybag without slots.
    private func unlockIfGiven() throws {
        if given.isUsed || choice.otherSecret == nil && SecretInput.passcode(choice) == nil { return }
        if case .typedRecoveryCode = choice.otherSecret { return }
        given.isUsed = true
        _ = try unlockWithGiven { try backend.unlock(with: $0) }
    }

    /// Unlocks a locked store before the user is asked for anything else.
    func openIfLocked() throws {
        try unlockIfGiven()
        switch try backend.lockState {
        case .unprotected, .unlocked: break
        case .locked, .beforeFirstUnlock: try unlock { _ = try backend.unlock(with: $0) }
        }
    }

    /// Checks the passcode, or what stands in for it, also if the store is unlocked: whoever has found an unlocked
    /// terminal must not be able to change the passcode, or to add a recovery code that could change it. A slot for a
    /// service, which opens less, does not stand in for it.
    ///
    /// The unlock checks it, and not the change that follows: a passcode from a pipe can be read only once.
    func checkOwner() throws {
        if try backend.slots.isEmpty { return }
        let otherwise =
            "The current passcode is needed, but there is no terminal to read it from: use --passcode-file, or "
            + "--recovery-code-file if it is forgotten."
        try unlock(otherwise: otherwise) { _ = try backend.unlock(with: $0) }
        guard try backend.status()?.unlockScope == .process else {
            throw Failure(
                .locked,
                "This needs the passcode, a recovery code, or a slot that opens all classes. Nothing was changed."
            )
        }
    }

    /// Calls `body` with what was given to unlock the store. If the user types it, allows three attempts.
    func unlock<Result>(otherwise: String = SecretInput.missing, _ body: (any UnlockMethod) throws -> Result)
        throws
        -> Result
    {
        note("unlocking")
        if let result = try unlockWithGiven(body) { return result }
        guard asks else { throw Failure(.locked, otherwise) }
        guard try hasPasscode else {
            throw Failure(
                .locked,
                "The store has no passcode. Unlock it with a recovery code or a key: see `lockbox unlock --help`."
            )
        }
        return try threeTimes(.passcode, otherwise, body)
    }

    /// Returns nil if the user has to type the passcode.
    func unlockWithGiven<Result>(_ body: (any UnlockMethod) throws -> Result) throws -> Result? {
        switch choice.otherSecret {
        case .typedRecoveryCode:
            let otherwise =
                "There is no terminal to read the recovery code from: use --recovery-code-file."
            return try threeTimes(.recoveryCode, otherwise, body)
        case .recoveryCode(let file): return try named { try body(.recoveryCode(.file(file))) }
        case .key(let key): return try named { try body(.key(key)) }
        case .hardware(let hardware):
            return try named {
                let method = try hardware.method(pin: hardware.presentPIN)
                // Before anybody is asked for a PIN or a touch.
                guard try backend.slots.contains(where: { $0.kind == hardware.kind.slot }) else {
                    throw LockboxError.slotNotFound(slot: hardware.kind.name)
                }
                hardware.announce()
                return try body(method)
            }
        case nil: return try SecretInput.passcode(choice).map { try body(.passcode($0)) }
        }
    }

    /// What somebody types.
    enum Typed {
        case passcode, recoveryCode

        var question: String { self == .passcode ? "Passcode of the store: " : "Recovery code: " }

        func method(_ typed: TypedSecret) -> any UnlockMethod {
            self == .passcode ? .passcode(typed.source) : .recoveryCode(typed.source)
        }
    }

    func threeTimes<Result>(
        _ typed: Typed,
        _ otherwise: String,
        _ body: (any UnlockMethod) throws -> Result
    ) throws -> Result {
        func attempt() throws -> Result {
            let method = try typed.method(Terminal.secret(typed.question, otherwise: otherwise))
            return try typed == .passcode ? body(method) : named { try body(method) }
        }
        for _ in 1...2 {
            do { return try attempt() } catch LockboxError.wrongPasscode {
                Output.note("lockbox: The passcode is wrong. Try again.")
            } catch let wrong as WrongSecret {
                Output.note("lockbox: \(wrong.reason) Try again.")
            }
        }
        return try attempt()
    }

    /// Runs `body`, and says in errors which secret is meant. The library calls each a passcode or a device key.
    private func named<Result>(_ body: () throws -> Result) throws -> Result {
        guard let secret = choice.otherSecret else { return try body() }
        do { return try SecretInput.naming(secret.secretName, body) } catch LockboxError.invalidDeviceKey(
            let source,
            let reason
        ) {
            throw Failure.invalidKey(source, reason)
        } catch LockboxError.slotNotFound {
            throw Failure(
                .noSuchItem,
                "The store has no \(secret.name). `lockbox slots` shows what unlocks it."
            )
        }
    }

    // MARK: The passcode

    var hasPasscode: Bool {
        get throws { try backend.slots.contains { $0.kind == .passcode } }
    }

    /// Who gives a secret expects a store that needs it. One that has no such slot may have been put in its place.
    func checkGivenSecret() throws {
        // What is not installed is said first.
        if case .hardware(let hardware) = choice.otherSecret { _ = try hardware.method(pin: nil) }
        let kind = choice.otherSecret?.kind ?? (SecretInput.passcode(choice) == nil ? nil : .passcode)
        guard let kind, try !backend.slots.contains(where: { $0.kind == kind }) else { return }
        let name = choice.otherSecret?.name ?? "passcode"
        let advice =
            kind == .passcode
            ? "Set one with `lockbox passcode set`, or leave the passcode out."
            : "`lockbox slots` shows what unlocks it."
        if !isMade {
            throw Failure(
                .locked,
                "A \(name) was given, but there is no store in \(location.onOneLine). Check --directory, or leave the \(name) out."
            )
        }
        throw Failure(
            .locked,
            "A \(name) was given, but the store \(location.onOneLine) has none: somebody may have replaced it. \(advice)"
        )
    }
}
