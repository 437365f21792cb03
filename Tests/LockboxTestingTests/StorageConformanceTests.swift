import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) @testable import LockboxTesting

@Suite struct StorageConformanceTests {
    @Test(arguments: StorageConformance.all)
    func files(_ requirement: StorageConformance) throws {
        for count in [1, 3] {
            let store = try TestStore()
            @Sendable func storages() -> [FileStorage] {
                (0..<count).map { _ in store.storage(lockTimeout: .seconds(30)) }
            }
            try requirement.check(reopen: { _ in storages() }, storages)
        }
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
        try requirement.check { [InterruptedStorage(target: InMemoryStorage(), interruption: interruption)] }
    }

    // MARK: A suite that passes everything would be worth nothing

    private let reopen: StorageConformance.Reopening = { storages in
        try storages.map { try #require($0 as? DefectiveStorage).reopened() }
    }

    @Test(arguments: StorageConformance.all)
    func withoutADefectItConforms(_ requirement: StorageConformance) throws {
        try requirement.check(reopen: reopen) { [DefectiveStorage(nil)] }
    }

    @Test(arguments: DefectiveStorage.Defect.allCases)
    func findsStoragesThatDoNotConform(_ defect: DefectiveStorage.Defect) {
        for requirement in defect.requirements {
            #expect {
                try requirement.check(within: .seconds(4), reopen: reopen) { [DefectiveStorage(defect)] }
            } throws: { error in
                (error as? ConformanceFailure)?.requirement == requirement.description
            }
        }
    }

    @Test func everyRequirementCanBeFoundUnmet() {
        let found = DefectiveStorage.Defect.allCases.flatMap(\.requirements).map(\.description)
        #expect(Set(found) == Set(StorageConformance.all.map(\.description)))
    }

    /// Swift's mutex would end the process.
    @Test(arguments: [
        (DefectiveStorage.Defect.listsPagesUnderItsLock, "in the closure of forEachPage did not return"),
        (.reportsUnderItsLock, "a read did not return during a report"),
        (.waitsForItsReport, "called during a report, did not return"),
        (.waitsForItself, "did not return within 2.0 seconds"),
    ])
    func aLockThatIsHeldFailsWithAMessage(_ defect: DefectiveStorage.Defect, _ finding: String) {
        #expect {
            try defect.requirements[0].check(within: .seconds(2)) { [DefectiveStorage(defect)] }
        } throws: { "\($0)".contains(finding) }
    }

    @Test(arguments: BackendConformance.all)
    func sealedBackendInMemory(_ requirement: BackendConformance) throws {
        try requirement.check(
            damage: { try #require($0 as? SealedBackend).damage($1) },
            { SealedBackend(storage: InMemoryStorage(), deviceKey: .bytes([UInt8](repeating: 7, count: 32))) }
        )
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
