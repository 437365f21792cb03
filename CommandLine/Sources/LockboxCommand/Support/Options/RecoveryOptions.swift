import ArgumentParser
import Lockbox

/// The options for a recovery code, which can stand in for a forgotten passcode.
struct RecoveryOptions: ParsableArguments {
    @Flag(help: "Ask for a recovery code instead of the passcode.")
    var recoveryCode = false

    @Option(
        help: "Read a recovery code from this file, and use it instead of the passcode.",
        completion: .file()
    )
    var recoveryCodeFile: String?

    func validate() throws {
        if recoveryCode, recoveryCodeFile != nil {
            throw ValidationError("Give --recovery-code or --recovery-code-file, not both.")
        }
    }

    var secret: OtherSecret? {
        recoveryCodeFile.map { .recoveryCode(file: $0) } ?? (recoveryCode ? .typedRecoveryCode : nil)
    }
}
