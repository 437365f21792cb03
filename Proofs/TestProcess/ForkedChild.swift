import Foundation

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Opens and unlocks a store, and forks. The child must not have the parent's keys, in no page of its memory, and must be
/// able to open the store itself. Status 0: so it is.
func forkWithOpenStore(_ directory: String, passcode: String) throws -> Int32 {
    let backend = EncryptedFileBackend(directory: directory)
    try backend.unlock(.value(passcode))
    let lockbox = try Lockbox(keyPrefix: prefix, backend: backend)
    guard try lockbox.unarchiveObject(forKey: "locked") == "value" else { return 2 }
    let parent = try backend.keyStore.currentKeyring()
    let key = try parent.key(.classKey(.whenUnlocked), epoch: parent.epoch)
    let child = try forked()
    if child == 0 { _exit(childStatus(backend, lockbox, key, passcode)) }
    var status: CInt = 0
    waitpid(child, &status, 0)
    guard status == 0, key.withBytes({ !$0.allSatisfy { $0 == 0 } }) else {
        return status == 0 ? 3 : status >> 8
    }
    return try lockbox.unarchiveObject(forKey: "locked") == "value" ? 0 : 4
}

private func childStatus(
    _ backend: EncryptedFileBackend,
    _ lockbox: Lockbox,
    _ key: SecretKey,
    _ passcode: String
)
    -> Int32
{
    do {
        guard key.withBytes({ $0.allSatisfy { $0 == 0 } }) else { return 10 }
        guard try backend.lockState == .beforeFirstUnlock else { return 11 }
        guard try lockbox.unarchiveObject(forKey: "open") == "value" else { return 12 }
        do {
            let value = try lockbox.unarchiveObject(String.self, forKey: "locked")
            return value == nil ? 13 : 14
        } catch LockboxError.interactionNotAllowed {}
        try backend.unlock(.value(passcode))
        guard try lockbox.unarchiveObject(forKey: "locked") == "value" else { return 15 }
        try lockbox.archiveObject("of the child", forKey: "child")
        return 0
    } catch {
        return 16
    }
}

/// Swift does not let a program call `fork`, as most of them may not.
private func forked() throws -> pid_t {
    typealias Fork = @convention(c) () -> pid_t
    guard let symbol = dlsym(nil, "fork") else { throw CocoaError(.featureUnsupported) }
    return unsafeBitCast(symbol, to: Fork.self)()
}
