import Lockbox

/// The store and the key prefix that a command uses.
struct Store {
    let choice: StoreChoice
    let backend: EncryptedFileBackend
    let lockbox: Lockbox

    private let asks: Bool

    var prefix: String { lockbox.keyPrefix }

    init(_ choice: StoreChoice, prefix: String, asks: Bool) throws {
        self.choice = choice
        self.asks = asks
        backend = choice.directory.map { EncryptedFileBackend(directory: $0) } ?? .default
        lockbox = try Lockbox(keyPrefix: prefix, backend: backend)
        note("the prefix \(prefix.onOneLine) of the store \(backend.storage.directory.onOneLine)")
    }

    func note(_ text: @autoclosure () -> String) {
        if choice.verbose { Output.note("lockbox: \(text())") }
    }

    /// Prints additional information, unless --quiet is given.
    func say(_ text: String) {
        if !choice.quiet { Output.note("lockbox: \(text)") }
    }

    /// Prints what has been done.
    func report(_ text: String) throws {
        if !choice.quiet { try Output.line(text) }
    }

    /// Runs `body`. If it fails because the store is locked, unlocks the store and runs it again, so that an
    /// open store needs no key derivation.
    func unlocking<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch LockboxError.interactionNotAllowed {
            try unlock { _ = try backend.unlock($0) }
            return try body()
        }
    }

    /// Calls `body` with the passcode. If the user types it, allows three attempts.
    func unlock<Result>(_ body: (PasscodeSource) throws -> Result) throws -> Result {
        let passcode = SecretInput.passcode(choice)
        note("unlocking")
        if let passcode { return try body(passcode) }
        guard asks else { throw SecretInput.missing }
        for _ in 1...2 {
            do { return try body(SecretInput.typed()) } catch LockboxError.wrongPasscode {
                Output.note("lockbox: The passcode is wrong. Try again.")
            }
        }
        return try body(SecretInput.typed())
    }

    /// Unlocks a locked store before the user is asked for anything else.
    func openIfLocked() throws {
        switch try backend.lockState {
        case .noPasscode, .unlocked: break
        case .locked, .beforeFirstUnlock: try unlock { _ = try backend.unlock($0) }
        }
    }

    /// The record of an item that was named by its path or its record.
    func record(_ name: String) -> String {
        let items = "\(backend.storage.directory)/items/"
        return name.hasPrefix(items) ? String(name.dropFirst(items.count)) : name
    }

    func missing(_ key: String) -> Failure {
        Failure(
            .noSuchItem,
            "There is no item for the key \(String(reflecting: key)) under the prefix \(String(reflecting: prefix))."
        )
    }
}

extension ItemKey {
    /// The key with its prefix, for messages.
    var text: String { "\(prefix.onOneLine) \(key.onOneLine)" }
}
