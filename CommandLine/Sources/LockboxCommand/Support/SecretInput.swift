import Lockbox

/// Where the command takes a passcode or a passphrase from.
enum SecretInput {
    /// The store's passcode as the options or the environment have it; nil if it is for somebody to type.
    static func passcode(_ choice: StoreChoice) -> PasscodeSource? {
        if let path = choice.passcodeFile { return .file(path) }
        if let descriptor = choice.passcodeFd { return .fileDescriptor(descriptor) }
        return isStandardThere ? .standard : nil
    }

    /// The store's passcode, asked for at the terminal.
    static func typed() throws -> PasscodeSource {
        .value(try Terminal.secret("Passcode of the store: ", otherwise: missing.message))
    }

    static let missing = Failure(
        .locked,
        "The store is locked. Run `lockbox unlock` at a terminal, or give --passcode-file."
    )

    /// A secret that is being made, and so is typed twice.
    static func new(_ name: String, file: String?, option: String) throws -> PasscodeSource {
        if let file { return .file(file) }
        let otherwise = "A new \(name) is needed, and there is no terminal to ask at: give \(option)."
        let typed = try Terminal.secret("New \(name): ", otherwise: otherwise)
        guard try typed == Terminal.secret("The same again: ", otherwise: otherwise) else {
            throw Failure(.locked, "The two were not the same. Nothing was changed.")
        }
        return .value(typed)
    }

    /// A secret that was made before.
    static func existing(_ name: String, file: String?, option: String) throws -> PasscodeSource {
        if let file { return .file(file) }
        let otherwise = "The \(name) is needed, and there is no terminal to ask at: give \(option)."
        return .value(
            try Terminal.secret("\(name.prefix(1).uppercased())\(name.dropFirst()): ", otherwise: otherwise)
        )
    }

    /// Whether `PasscodeSource.standard` finds any of its sources.
    private static var isStandardThere: Bool {
        if Environment["LOCKBOX_PASSCODE_FILE"] != nil || Environment["LOCKBOX_PASSCODE"] != nil {
            return true
        }
        return Environment["CREDENTIALS_DIRECTORY"].map { access("\($0)/lockbox-passcode", F_OK) == 0 }
            ?? false
    }
}
