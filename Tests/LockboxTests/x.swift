import Testing
import Foundation
import LockboxTesting
@testable import Lockbox

@Suite struct ConformanceTests {
    @Test(arguments: BackendConformance.all)
    func inMemory(_ requirement: BackendConformance) throws {
        try requirement.check { InMemoryBackend() }
    }
    @Test(arguments: BackendConformance.all)
    func file(_ requirement: BackendConformance) throws {
        try requirement.check { EncryptedFileBackend(directory: "/tmp/lbx-\(UInt64.random(in: 0...UInt64.max))") }
    }
}
