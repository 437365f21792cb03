import Lockbox

/// The sources of passcodes and passphrases.
enum SecretInput {
    /// Returns the store's passcode from the options or the environment, or nil if the user has to type it.
    static func passcode(_ choice: StoreChoice) -> PasscodeSource? {
        if let path = choice.passcodeFile { return .file(path) }
        if let descriptor = choice.passcodeFd { return .fileDescriptor(descriptor) }
        return isStandardThere ? .standard : nil
    }

    static let missing =
        "The store is locked. Run `lockbox unlock` at a terminal, or use --passcode-file."

    /// A new secret, which the user types twice.
    static func new(_ name: String, file: String?, option: String) throws -> PasscodeSource {
        if let file { return .file(file) }
        let otherwise = "A new \(name) is needed, but there is no terminal to read it from: use \(option)."
        let typed = try Terminal.secret("New \(name): ", otherwise: otherwise)
        guard try typed.isEqual(to: Terminal.secret("Repeat it: ", otherwise: otherwise)) else {
            throw Failure(.locked, "The two entries differ. Nothing was changed.")
        }
        return typed.source
    }

    /// An existing secret.
    static func existing(_ name: String, file: String?, option: String) throws -> PasscodeSource {
        if let file { return .file(file) }
        let otherwise = "The \(name) is needed, but there is no terminal to read it from: use \(option)."
        let question = "\(name.prefix(1).uppercased())\(name.dropFirst()): "
        return try Terminal.secret(question, otherwise: otherwise).source
    }

    /// Runs `body`, and says in errors which secret is wrong. The library calls each a passcode.
    static func naming<Result>(_ name: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch LockboxError.wrongPasscode {
            throw WrongSecret(reason: "The \(name) is wrong.")
        } catch LockboxError.invalidPasscode(let reason) {
            throw WrongSecret(reason: "The \(name) cannot be used: \(reason).")
        }
    }

    /// Whether any source of `PasscodeSource.standard` is available.
    private static var isStandardThere: Bool {
        if ["LOCKBOX_PASSCODE_FILE", "LOCKBOX_PASSCODE"].contains(where: Environment.isSet) { return true }
        // One that is not UTF-8 is there, and refused when it is read.
        guard let folder = try? Environment["CREDENTIALS_DIRECTORY"] else {
            return Environment.isSet("CREDENTIALS_DIRECTORY")
        }
        return access("\(folder)/lockbox-passcode", F_OK) == 0
    }
}
