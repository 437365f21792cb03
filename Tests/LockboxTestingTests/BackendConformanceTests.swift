import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore
@testable import LockboxTesting

@Suite struct BackendConformanceTests {
    @Test(arguments: BackendConformance.all)
    func inMemoryBackend(_ requirement: BackendConformance) throws {
        try requirement.check { InMemoryBackend() }
    }

    @Test(arguments: BackendConformance.all)
    func encryptedFileBackend(_ requirement: BackendConformance) throws {
        let store = try TestStore()
        try requirement.check(
            damage: { try #require($0 as? EncryptedFileBackend).damage($1) },
            { store.backend() }
        )
    }

    @Test(arguments: BackendConformance.all)
    func failingBackendThatDoesNotFail(_ requirement: BackendConformance) throws {
        try requirement.check { FailingBackend() }
        try requirement.check(damage: damage) { FailingBackend(DefectiveBackend(nil)) }
    }

    @Test(arguments: BackendConformance.all)
    func backendThatRunsClosuresTwice(_ requirement: BackendConformance) throws {
        try requirement.check { ContendedBackend(wrapped: InMemoryBackend()) }
    }

    // MARK: A suite that passes everything would be worth nothing

    private let damage: BackendConformance.Damage = { backend, key in
        let wrapped = (backend as? FailingBackend)?.wrapped ?? backend
        try #require(wrapped as? DefectiveBackend).damage(key)
    }

    @Test(arguments: BackendConformance.all)
    func withoutADefectItConforms(_ requirement: BackendConformance) throws {
        try requirement.check(damage: damage) { DefectiveBackend(nil) }
    }

    @Test(arguments: DefectiveBackend.Defect.allCases)
    func findsBackendsThatDoNotConform(_ defect: DefectiveBackend.Defect) {
        for requirement in defect.requirements {
            #expect {
                try requirement.check(within: .seconds(4), damage: damage) { DefectiveBackend(defect) }
            } throws: { error in
                (error as? ConformanceFailure)?.requirement == requirement.description
            }
        }
    }

    @Test func everyRequirementCanBeFoundUnmet() {
        let found = DefectiveBackend.Defect.allCases.flatMap(\.requirements).map(\.description)
        #expect(Set(found) == Set(BackendConformance.all.map(\.description)))
    }

    /// Swift's mutex would end the process.
    @Test(arguments: [
        (DefectiveBackend.Defect.updatesUnderItsLock, "in the closure of an update did not return"),
        (.listsUnderItsLock, "in the closure of forEachItem did not return"),
        (.reportsUnderItsLock, "called during a report, did not return"),
        (.waitsForItself, "did not return within 2.0 seconds"),
    ])
    func aLockThatIsHeldFailsWithAMessage(_ defect: DefectiveBackend.Defect, _ finding: String) {
        #expect {
            try defect.requirements[0].check(within: .seconds(2)) { DefectiveBackend(defect) }
        } throws: { "\($0)".contains(finding) }
    }

    @Test func aFindingSaysWhatHappened() {
        func finding(_ defect: DefectiveBackend.Defect) -> String? {
            do { try defect.requirements[0].check { DefectiveBackend(defect) } } catch { return "\(error)" }
            return nil
        }
        let requirement = "Requirement not met: an absent item is nil and can be removed: "
        #expect(finding(.inventsValues) == requirement + "value(for:now:) returned a value")
    }
}
