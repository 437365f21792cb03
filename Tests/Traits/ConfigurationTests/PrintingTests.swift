import LockboxConfiguration
import Testing

import Lockbox

/// However a program prints a public value, it shows neither a secret nor a closure.
struct PrintingTests {
    @Test("Promise 7: no way of printing a public value shows a secret, a key or a closure")
    func noWayOfPrintingShowsASecret() async throws {
        let lockbox = try Lockbox(keyPrefix: "config", backend: InMemoryBackend())
        try await lockbox.archiveObject("hunter2", forKey: "password")
        let provider = try await LockboxConfigProvider(lockbox)
        expectPrintingHides(
            ["hunter2"],
            in: ["LockboxConfigProvider": [provider, provider.snapshot()]]
        )
    }
}
