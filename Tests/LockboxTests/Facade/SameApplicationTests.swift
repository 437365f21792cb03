import Foundation
import Testing

import Lockbox

/// The same program on every backend: only the line that makes the backend differs.
@Suite struct SameApplicationTests {
    @Test func inMemory() throws { try SameApplication.run(on: InMemoryBackend()) }

    @Test func onFiles() throws { try SameApplication.run(on: TestStore().backend()) }
}
