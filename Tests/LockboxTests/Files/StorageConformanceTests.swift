import Foundation
import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxSealed

@Suite struct StorageConformanceTests {
    @Test(arguments: StorageConformance.all)
    func files(_ requirement: StorageConformance) throws {
        let store = try TestStore()
        try requirement.check { [store.backend(lockTimeout: .seconds(30)).storage] }
        let other = try TestStore()
        try requirement.check { (0..<3).map { _ in other.backend(lockTimeout: .seconds(30)).storage } }
    }

    @Test(arguments: StorageConformance.all)
    func memory(_ requirement: StorageConformance) throws {
        try requirement.check { [InMemoryStorage()] }
    }

    @Test(arguments: StorageConformance.all)
    func memoryThatNamesNoChanges(_ requirement: StorageConformance) throws {
        try requirement.check { [RelayedStorage.overflowing] }
    }

    /// Only those that report changes must report them well.
    @Test(arguments: StorageConformance.all)
    func memoryThatReportsNothing(_ requirement: StorageConformance) throws {
        let interruption = Interruption(at: 0) {}
        try requirement.check { [InterruptedStorage(wrapped: InMemoryStorage(), interruption: interruption)] }
    }

    /// A suite that passes everything would be worth nothing.
    @Test(arguments: DefectiveStorage.Defect.allCases)
    func findsStoragesThatDoNotConform(_ defect: DefectiveStorage.Defect) {
        #expect(throws: (any Error).self) {
            try StorageConformance.checkAll(within: .seconds(5)) { [DefectiveStorage(defect)] }
        }
    }

    @Test func whatDeadlocksFailsWithAMessage() {
        let failures = [
            #expect(throws: ConformanceFailure.self) {
                try StorageConformance.checkAll(within: .seconds(1)) { [DefectiveStorage(.waitsForItself)] }
            },
            #expect(throws: ConformanceFailure.self) {
                try BackendConformance.checkAll(within: .seconds(1)) { DefectiveBackend(.waitsForItself) }
            },
        ]
        for failure in failures {
            #expect(failure?.description.contains("did not return within 1.0 seconds") == true)
        }
    }

    @Test(arguments: BackendConformance.all)
    func sealedBackendInMemory(_ requirement: BackendConformance) throws {
        try requirement.check {
            SealedBackend(storage: InMemoryStorage(), deviceKey: .bytes([UInt8](repeating: 7, count: 32)))
        }
    }

    /// Both kinds of states of a store with a passcode.
    @Test(arguments: [true, false])
    func lockedBackendsConform(_ isLocked: Bool) throws {
        for requirement in BackendConformance.all where requirement.description.contains("lock state") {
            try requirement.check {
                let backend = SealedBackend(storage: InMemoryStorage())
                try backend.setPasscode(.value("1234"), strength: .interactive)
                if isLocked { try backend.lock() }
                return backend
            }
        }
    }
}
