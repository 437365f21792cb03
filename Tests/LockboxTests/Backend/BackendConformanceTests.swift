import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

@Suite struct BackendConformanceTests {
    @Test(arguments: BackendConformance.all)
    func inMemoryBackend(_ requirement: BackendConformance) throws {
        try requirement.check { InMemoryBackend() }
    }

    @Test(arguments: BackendConformance.all)
    func encryptedFileBackend(_ requirement: BackendConformance) throws {
        let store = try TestStore()
        try requirement.check { store.backend() }
    }

    @Test(arguments: BackendConformance.all)
    func failingBackendThatDoesNotFail(_ requirement: BackendConformance) throws {
        try requirement.check { FailingBackend() }
    }

    @Test(arguments: BackendConformance.all)
    func backendThatRunsClosuresTwice(_ requirement: BackendConformance) throws {
        try requirement.check { ContendedBackend(wrapped: InMemoryBackend()) }
    }

    /// A suite that passes everything would be worth nothing.
    @Test(arguments: DefectiveBackend.Defect.allCases)
    func findsBackendsThatDoNotConform(_ defect: DefectiveBackend.Defect) {
        #expect(throws: (any Error).self) {
            try BackendConformance.checkAll(within: .seconds(20)) { DefectiveBackend(defect) }
        }
    }
}
