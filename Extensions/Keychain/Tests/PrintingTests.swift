@testable import LockboxKeychainTesting
import Foundation
import Testing

import Lockbox
@testable import LockboxCore
import LockboxKeychain
import LockboxKeychainMigration

/// However a program prints a public value, it shows no secret.
@Suite struct PrintingTests {
    @Test("Promise 7: no way of printing a public value shows a secret, a key or a closure")
    func noWayOfPrintingShowsASecret() throws {
        let secret = "hunter2"
        let keychain = KeychainSimulator()
        let backend = KeychainBackend(keychain)
        try backend.lockbox("p").archiveObject(Data(secret.utf8), forKey: "k")
        let samples: [String: [Any]] = [
            "KeychainSimulator": [keychain], "KeychainBackend": [backend, KeychainBackend()],
            "KeychainValue": [KeychainValue.text(secret), KeychainValue.data(Data(secret.utf8))],
            "SystemKeychain": [SystemKeychain()],
            "KeychainSimulator.Platform": KeychainSimulator.Platform.allCases,
            "KeychainAccessControl": [KeychainAccessControl.userPresence],
            "KeychainSimulator.User": KeychainSimulator.User.allCases,
            "MacKeychains": [MacKeychains.all], "KeychainName": [KeychainName.self],
            "KeychainStatus": [KeychainStatus.self],
        ]
        expectPrintingHides([secret], in: samples)
    }
}
