import Foundation

@testable import Lockbox
import LockboxBackup
@testable import LockboxCore
@testable import LockboxStore

/// The operations that a process can be killed in. The store, if it has a passcode, is unlocked first, by a backend of
/// its own: only the operation itself is counted.
func run(_ operation: String, _ arguments: [String], _ backend: EncryptedFileBackend, _ directory: String)
    throws
{
    switch (operation, arguments.count) {
    case ("setPasscode", 1):
        try backend.setPasscode(.value(arguments[0]), strength: .interactive)
    case ("changePasscode", 2):
        try backend.unlock(.value(arguments[0]))
        try backend.changePasscode(to: .value(arguments[1]), strength: .interactive)
    case ("removePasscode", 1):
        // An interrupted removal is carried on, though there is no passcode any more.
        if try backend.lockState != .unprotected { try backend.unlock(.value(arguments[0])) }
        try backend.removePasscode()
    case ("rotate", 0): try backend.rotateKeys()
    case ("export", 2):
        let backend = EncryptedFileBackend(directory: directory)
        let recipients = try BackupRecipients.passphrase(.value("passphrase"), workFactor: 10).keys()
        _ = try backend.export(to: arguments[0], for: recipients, calls: dying(before: Int(arguments[1])!))
    case ("import", 1):
        try backend.importBackup(from: arguments[0], with: .passphrase(.value("passphrase")), existing: .fail)
    default: exit(64)
    }
}
