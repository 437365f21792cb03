import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The worth of each class in each state of the store.
@Suite(.serialized) struct AccessibilityTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private init(_ store: TestStore) { self.store = store }

    // MARK: The table

    enum Operation: String, CaseIterable {
        case archiveNew, replace, unarchive, contains, attributes, list, remove, changeClass, removeAll
    }

    enum Outcome: Equatable {
        case done, absent
        case error(LockboxError.Code)
    }

    /// The table of the documentation, article "Classes and locking".
    private static func expected(_ accessibility: Accessibility, _ state: LockState, _ operation: Operation)
        -> Outcome
    {
        if accessibility == .whenPasscodeSetThisDeviceOnly, state == .unprotected {
            switch operation {
            case .archiveNew, .replace: return .error(.passcodeNotSet)
            case .unarchive, .contains, .attributes, .list: return .absent
            case .changeClass: return .error(.itemNotFound)
            case .remove, .removeAll: return .done
            }
        }
        switch operation {
        case .contains, .attributes, .list, .remove, .removeAll: return .done
        case .archiveNew, .replace, .unarchive, .changeClass:
            return isOpen(accessibility, state) ? .done : .error(.interactionNotAllowed)
        }
    }

    private static func isOpen(_ accessibility: Accessibility, _ state: LockState) -> Bool {
        switch (accessibility, state) {
        case (.always, _), (.alwaysThisDeviceOnly, _), (_, .unlocked): true
        case (.whenPasscodeSetThisDeviceOnly, _), (_, .beforeFirstUnlock): false
        case (_, .unprotected): true
        case (.afterFirstUnlock, .locked), (.afterFirstUnlockThisDeviceOnly, .locked): true
        case (.whenUnlocked, .locked), (.whenUnlockedThisDeviceOnly, .locked): false
        }
    }

    /// An item of each class for each operation.
    private static let items = Dictionary(
        uniqueKeysWithValues: Operation.allCases.flatMap { operation in
            Accessibility.allCases.map { ("\($0.rawValue)\(operation)", $0) }
        }
    )

    private func backend(in state: LockState) throws -> EncryptedFileBackend {
        let backend = store.backend()
        if state != .beforeFirstUnlock { try backend.unlock(.value("1234")) }
        switch state {
        case .unprotected: try backend.removePasscode()
        case .locked: try backend.lock()
        case .beforeFirstUnlock, .unlocked: break
        }
        return backend
    }

    private func perform(_ operation: Operation, _ accessibility: Accessibility, _ lockbox: Lockbox) throws
        -> Outcome
    {
        let key = "\(accessibility.rawValue)\(operation)"
        switch operation {
        case .archiveNew: try lockbox.archiveObject("new", forKey: "new \(key)", accessibility: accessibility)
        case .replace: try lockbox.archiveObject("new", forKey: key, accessibility: accessibility)
        case .unarchive:
            let value: String? = try lockbox.unarchiveObject(forKey: key)
            if let value { #expect(value == "old") } else { return .absent }
        case .contains: return try lockbox.containsObject(forKey: key) ? .done : .absent
        case .attributes:
            let attributes = try lockbox.attributes(forKey: key)
            if let attributes { #expect(attributes.accessibility == accessibility) } else { return .absent }
        case .list: return try lockbox.allKeys().contains(key) ? .done : .absent
        case .remove:
            try lockbox.removeObject(forKey: key)
            #expect(try !lockbox.containsObject(forKey: key))
        case .changeClass: try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: key)
        case .removeAll:
            try lockbox.removeAllObjects()
            #expect(try lockbox.allKeys().isEmpty)
        }
        return .done
    }

    @Test("Promise 6: every class in every state does what the table says")
    func everyClassInEveryState() throws {
        try store.backend().setUp(items: Self.items)
        var cells = 0
        for state in LockState.allCases {
            for accessibility in Accessibility.allCases {
                let cell = AccessibilityTests(try TestStore(copying: store))
                let backend = try cell.backend(in: state)
                #expect(try backend.lockState == state)
                let lockbox = try backend.lockbox()
                for operation in Operation.allCases {
                    let before = try cell.store.snapshot()
                    let outcome: Outcome
                    do { outcome = try cell.perform(operation, accessibility, lockbox) } catch let error
                        as LockboxError
                    {
                        outcome = .error(error.code)
                    }
                    let expected = Self.expected(accessibility, state, operation)
                    #expect(outcome == expected, "\(accessibility), \(state), \(operation)")
                    if case .error = expected {
                        let after = try cell.store.snapshot()
                        #expect(after == before, "\(accessibility), \(state), \(operation)")
                    }
                    cells += 1
                }
                try cell.expectNothingChangedBehindALock(accessibility, state)
            }
        }
        print("cells of the table: \(cells)")
        #expect(cells == 252)
    }

    /// A refused write or change of class left the item as it was; all else of the prefix was removed on purpose.
    private func expectNothingChangedBehindALock(_ accessibility: Accessibility, _ state: LockState) throws {
        #expect(try store.leftovers() == [])
        let backend = store.backend()
        if state != .unprotected { try backend.unlock(.value("1234")) }
        #expect(try backend.lockbox().allKeys().isEmpty)
    }

    // MARK: Changes of class

    @Test func whatIsLockedIsNotOverwrittenByAnotherClass() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        try backend.lock()
        let lockbox = try backend.lockbox()
        expectError(.interactionNotAllowed) {
            try lockbox.archiveObject("new", forKey: "ak", accessibility: .always)
        }
        expectError(.interactionNotAllowed) {
            try lockbox.setAttributes(WriteOptions(accessibility: .whenUnlocked), forKey: "dk")
        }
        try backend.unlock(.value("1234"))
        #expect(try lockbox.unarchiveObject(forKey: "ak") == "old")
        #expect(try lockbox.unarchiveObject(forKey: "dk") == "old")
    }
}
