import LockboxKeychainTesting
import Foundation
import LockboxKeychain
import LockboxTesting
import Testing

import Lockbox

/// The same program on every backend: only the line that makes the backend differs.
@Suite struct SameApplicationTests {
    @Test func inMemory() throws { try SameApplication.run(on: InMemoryBackend()) }

    @Test func onFiles() throws { try SameApplication.run(on: TestStore().backend()) }

    @Test func inTheSimulatedKeychain() throws {
        try SameApplication.run(on: KeychainBackend(KeychainSimulator()))
    }
}
