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
    case ("changeClass", 2...3):
        if arguments.count > 2 { try backend.unlock(.value(arguments[2])) }
        try backend.setAccessibility(
            Accessibility(rawValue: arguments[1])!,
            for: ItemKey(prefix: prefix, key: arguments[0]),
            now: Date()
        )
    case ("rotate", 0...1):
        if let passcode = arguments.first { try backend.unlock(.value(passcode)) }
        try backend.rotateKeys()
    case ("addRecoveryCode", 1), ("removeSlot", 1), ("acceptRestored", 1), ("rotateElsewhere", 1):
        try runOnSlots(operation, arguments[0], backend)
    case ("export", 2...3):
        let last = Int(arguments[1])!
        let calls = last == 0 ? markingCalls() : dying(before: last)
        let backend = EncryptedFileBackend(directory: directory)
        if arguments.count > 2 { try backend.unlock(.value(arguments[2])) }
        let recipients = try BackupRecipients.passphrase(.value("passphrase"), workFactor: 10).keys()
        _ = try backend.export(to: arguments[0], for: recipients, calls: calls)
    case ("import", 1):
        try backend.importBackup(from: arguments[0], with: .passphrase(.value("passphrase")), existing: .fail)
    case ("importKeeping", 1):
        try backend.importBackup(from: arguments[0], with: .passphrase(.value("passphrase")), existing: .keep)
    default:
        try runWrite(operation, arguments, backend)
    }
}
