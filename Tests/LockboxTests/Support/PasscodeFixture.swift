import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// A store with a passcode, and an item of every class.
protocol PasscodeFixture {
    var store: TestStore { get }
}

extension PasscodeFixture {
    func lockbox(_ backend: EncryptedFileBackend) throws -> Lockbox {
        try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
    }

    /// A backend that has set the passcode, and an item of every class, or of these.
    func prepare(
        _ passcode: String = "1234",
        _ suffixes: [String] = [""],
        classes: [Accessibility] = Accessibility.allCases
    ) throws -> EncryptedFileBackend {
        let backend = store.backend()
        try backend.setPasscode(.value(passcode), strength: .interactive)
        for accessibility in classes {
            for suffix in suffixes {
                try lockbox(backend).archiveObject(
                    "old",
                    forKey: accessibility.rawValue + suffix,
                    accessibility: accessibility
                )
            }
        }
        return backend
    }
}
