import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// Passcode, lock, unlock, and what each class is worth in each state.
@Suite(.serialized) struct PasscodeTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private init(_ store: TestStore) { self.store = store }

    private func lockbox(_ backend: EncryptedFileBackend) throws -> Lockbox {
        try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
    }

    /// A backend that has set the passcode, and an item of every class.
    private func prepare(_ passcode: String = "1234", _ suffixes: [String] = [""]) throws
        -> EncryptedFileBackend
    {
        let backend = store.backend()
        try backend.setPasscode(.value(passcode), strength: .interactive)
        for accessibility in Accessibility.allCases {
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
        if accessibility == .whenPasscodeSetThisDeviceOnly, state == .noPasscode {
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
        case (_, .noPasscode): true
        case (.afterFirstUnlock, .locked), (.afterFirstUnlockThisDeviceOnly, .locked): true
        case (.whenUnlocked, .locked), (.whenUnlockedThisDeviceOnly, .locked): false
        }
    }

    private func backend(in state: LockState, _ prepared: EncryptedFileBackend) throws -> EncryptedFileBackend
    {
        switch state {
        case .noPasscode: try prepared.removePasscode()
        case .beforeFirstUnlock: return store.backend()
        case .unlocked: break
        case .locked: try prepared.lock()
        }
        return prepared
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
        case .changeClass: try lockbox.setAccessibility(.always, forKey: key)
        case .removeAll:
            try lockbox.removeAllObjects()
            #expect(try lockbox.allKeys().isEmpty)
        }
        return .done
    }

    @Test("Promise 6: every class in every state does what the table says")
    func everyClassInEveryState() throws {
        var cells = 0
        for state in LockState.allCases {
            for accessibility in Accessibility.allCases {
                let cell = try PasscodeTests()
                let prepared = try cell.prepare("1234", Operation.allCases.map(\.rawValue))
                let backend = try cell.backend(in: state, prepared)
                #expect(try backend.lockState == state)
                let lockbox = try cell.lockbox(backend)
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
        if state != .noPasscode { try backend.unlock(.value("1234")) }
        #expect(try lockbox(backend).allKeys().isEmpty)
    }

    @Test func whatIsLockedIsNotOverwrittenByAnotherClass() throws {
        let backend = try prepare()
        try backend.lock()
        let lockbox = try lockbox(backend)
        expectError(.interactionNotAllowed) {
            try lockbox.archiveObject("new", forKey: "ak", accessibility: .always)
        }
        expectError(.interactionNotAllowed) { try lockbox.setAccessibility(.whenUnlocked, forKey: "dk") }
        try backend.unlock(.value("1234"))
        #expect(try lockbox.unarchiveObject(forKey: "ak") == "old")
        #expect(try lockbox.unarchiveObject(forKey: "dk") == "old")
    }

    // MARK: Passcode

    @Test func aPasscodeRewritesTheKeybagOnly() throws {
        let lockbox = try lockbox(store.backend())
        for index in 0..<10_000 { try lockbox.archiveObject(index, forKey: "\(index)") }
        let backend = store.backend()
        let before = try store.snapshot()
        func changed(since before: [String: TestStore.Entry]) throws -> [String] {
            try store.snapshot().filter { before[$0.key] != $0.value }.keys.sorted()
        }
        try backend.setPasscode(.value("one"), strength: .interactive)
        #expect(try changed(since: before) == ["keybag"])
        let set = try store.snapshot()
        let change = try ContinuousClock().measure {
            try backend.changePasscode(to: .value("two"), strength: .interactive)
        }
        #expect(try changed(since: set) == ["keybag"])
        let other = store.backend()
        let unlock = try ContinuousClock().measure { try store.backend().unlock(.value("two")) }
        print("10,000 items: a change of the passcode took \(change), an unlock \(unlock)")
        #expect(throws: LockboxError.wrongPasscode) { try other.unlock(.value("one")) }
        try other.unlock(.value("two"))
        #expect(try self.lockbox(other).unarchiveObject(forKey: "7") == 7)
        try other.removePasscode()
        #expect(try changed(since: set) == ["keybag"])
        #expect(try self.lockbox(store.backend()).unarchiveObject(forKey: "49") == 49)
    }

    private func runs(of backend: EncryptedFileBackend) -> Int { backend.keys.derivations.withLock { $0 } }

    @Test func argon2RunsOncePerUnlockAndNeverElse() throws {
        let backend = try prepare()
        let other = store.backend()
        let before = runs(of: backend)
        func runsSince() -> Int { runs(of: backend) + runs(of: other) - before }
        try other.unlock(.value("1234"))
        #expect(runsSince() == 1)
        for round in 0..<20 {
            try lockbox(other).archiveObject(round, forKey: "ak")
            #expect(try lockbox(other).unarchiveObject(forKey: "ak") == round)
            _ = try lockbox(other).allKeys()
        }
        #expect(runsSince() == 1)
        try backend.changePasscode(to: .value("5678"), strength: .interactive)
        #expect(runsSince() == 2)
        try backend.lock()
        try backend.removePasscodeAfterUnlocking("5678")
        #expect(runsSince() == 3)
    }

    /// As much as a right one, however many there are.
    @Test func aWrongPasscodeCostsOneRun() throws {
        let backend = try prepare()
        let before = runs(of: backend)
        for number in 1...5 {
            #expect(throws: LockboxError.wrongPasscode) { try backend.unlock(.value("12345")) }
            #expect(runs(of: backend) - before == number)
        }
        try backend.unlock(.value("1234"))
        #expect(runs(of: backend) - before == 6)
    }

    @Test func threeErrorsForThreeFaults() throws {
        _ = try prepare()
        #expect(throws: LockboxError.wrongPasscode) { try store.backend().unlock(.value("12345")) }
        let keybag = try readBytes(store.keybag)
        var damaged = keybag
        damaged[100] ^= 1  // in the passcode block
        try overwrite(store.keybag, damaged)
        expectError(.authenticationFailed) { try store.backend().unlock(.value("1234")) }
        try overwrite(store.keybag, keybag)
        let stranger = try TestStore()
        try stranger.lockbox().archiveObject(1, forKey: "k")
        try overwrite(store.deviceKey, readBytes(stranger.deviceKey))
        expectError(.deviceKeyMismatch) { try store.backend().unlock(.value("1234")) }
        #expect(try readBytes(store.keybag) == keybag)
    }

    @Test func callsThatDoNotFitTheState() throws {
        let backend = store.backend()
        #expect(try backend.lockState == .noPasscode)
        #expect(throws: LockboxError.passcodeNotSet) { try backend.changePasscode(to: .value("x")) }
        #expect(throws: LockboxError.passcodeNotSet) { try backend.removePasscode() }
        try backend.unlock(.value("anything"))
        try backend.lock()
        #expect(!FileManager.default.fileExists(atPath: store.directory))
        try backend.setPasscode(.value("1234"), strength: .interactive)
        #expect(throws: LockboxError.passcodeAlreadySet) { try backend.setPasscode(.value("x")) }
        #expect(throws: LockboxError.passcodeAlreadySet) { try store.backend().setPasscode(.value("x")) }
        try backend.lock()
        expectError(.interactionNotAllowed) { try backend.changePasscode(to: .value("x")) }
        expectError(.interactionNotAllowed) { try backend.removePasscode() }
        try backend.unlock(.value("1234"))
        #expect(try backend.lockState == .unlocked)
    }

    /// Refused before they cost anything, by the MAC's owner too: who has the device key could write such a keybag.
    @Test(
        arguments: [
            (0, 1 << 26), (1, 1 << 26), (11, 1 << 26), (.max, 1 << 26), (2, 0), (2, (1 << 26) - 1),
            (2, (1 << 30) + 1), (2, .max),
        ]
            as [(UInt32, UInt64)]
    )
    func parametersOutOfBounds(_ operations: UInt32, _ memory: UInt64) throws {
        _ = try prepare()
        var keybag = try readBytes(store.keybag)
        keybag.withUnsafeMutableBytes {
            $0.storeBytes(of: operations.littleEndian, toByteOffset: 68, as: UInt32.self)
            $0.storeBytes(of: memory.littleEndian, toByteOffset: 72, as: UInt64.self)
        }
        let deviceKey = try readBytes(store.deviceKey).withUnsafeBytes { try DeviceKeyRecord.decode($0) }
        Keybag.authenticate(&keybag, deviceKey: deviceKey)
        try overwrite(store.keybag, keybag)
        let backend = store.backend()
        expectError(.corrupt) { try backend.unlock(.value("1234")) }
        #expect(runs(of: backend) == 0)
    }

    @Test(.enabled(if: isUnsanitized, "a sanitizer takes more memory")) func withoutTheMemoryItIsATypedError()
        async throws
    {
        _ = try prepare()
        await #expect(processExitsWith: .success) { [directory = store.directory as String] in
            var limit = rlimit(rlim_cur: 600 << 20, rlim_max: 600 << 20)
            _ = withUnsafePointer(to: &limit) { setrlimit(__rlimit_resource_t(9), $0) }  // RLIMIT_AS
            try PasscodeTests.expectNotEnoughMemory(EncryptedFileBackend(directory: directory))
        }
        try await store.backend().unlock(.value("1234"))
    }

    private static func expectNotEnoughMemory(_ backend: EncryptedFileBackend) throws {
        try backend.unlock(.value("1234"))
        do { try backend.changePasscode(to: .value("x"), strength: .sensitive) } catch LockboxError
            .notEnoughMemory
        {
            return try backend.changePasscode(to: .value("1234"), strength: .interactive)
        }
        exit(1)
    }

    @Test func removingThePasscodeDestroysItsClass() throws {
        let backend = try prepare()
        let path = try store.path("akpu")
        let copy = try readBytes(path)
        try backend.removePasscode()
        #expect(try lockbox(backend).unarchiveObject(String.self, forKey: "akpu") == nil)
        #expect(!FileManager.default.fileExists(atPath: path))
        try overwrite(path, copy)
        expectError(.corrupt) { try lockbox(store.backend()).unarchiveObject(String.self, forKey: "akpu") }
        try backend.setPasscode(.value("1234"), strength: .interactive)
        expectError(.authenticationFailed, "the class has another key now") {
            try lockbox(backend).unarchiveObject(String.self, forKey: "akpu")
        }
        for accessibility in Accessibility.allCases.dropLast() {
            #expect(try lockbox(backend).unarchiveObject(forKey: accessibility.rawValue) == "old")
        }
    }

    /// As a kill does, a failure between the new keybag and the removal leaves items that nothing opens.
    @Test func anInterruptedRemovalOfThePasscodeIsCarriedOn() throws {
        _ = try prepare()
        let backend = store.backend(SystemCalls(fault: { $0 == .unlink ? .failure(EIO) : nil }))
        try backend.unlock(.value("1234"))
        expectError(.storageFailure) { try backend.removePasscode() }
        let path = try store.path("akpu")
        #expect(FileManager.default.fileExists(atPath: path))
        #expect(throws: LockboxError.passcodeNotSet) { try store.backend().removePasscode() }
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(try lockbox(store.backend()).allKeys().count == Accessibility.allCases.count - 1)
    }

    @Test func whatAnotherProcessWritesUnderTheNextPasscodeStays() throws {
        _ = try prepare()
        let other = store.backend()
        let renames = Protected(0)
        let backend = store.backend(
            SystemCalls(fault: { call in
                // The keybag is written, and its lock let go: next is the lock of the items that are to go.
                guard
                    renames.withLock({
                        $0 += call == .rename ? 1 : 0; return $0 == 1 && call == .flock
                    })
                else {
                    return nil
                }
                renames.withLock { $0 += 1 }
                let written = lockboxError {
                    try other.setPasscode(.value("5678"), strength: .interactive)
                    try Lockbox(keyPrefix: TestStore.prefix, backend: other).archiveObject(
                        "new",
                        forKey: "akpu",
                        accessibility: .whenPasscodeSetThisDeviceOnly
                    )
                }
                #expect(written == nil)
                return nil
            })
        )
        try backend.unlock(.value("1234"))
        try backend.removePasscode()
        #expect(renames.withLock { $0 } == 2)
        #expect(try lockbox(other).unarchiveObject(forKey: "akpu") == "new")
    }

    // MARK: Other processes

    /// A backend that was open before, and writes after: as another process would.
    @Test func changesByOtherProcesses() throws {
        let one = try prepare()
        let other = store.backend()
        try other.unlock(.value("1234"))
        try one.changePasscode(to: .value("5678"), strength: .interactive)
        for accessibility in Accessibility.allCases.dropLast() {
            try lockbox(other).archiveObject(
                "newer",
                forKey: accessibility.rawValue,
                accessibility: accessibility
            )
            #expect(try lockbox(one).unarchiveObject(forKey: accessibility.rawValue) == "newer")
        }
        expectError(.interactionNotAllowed) {
            try lockbox(other).archiveObject(
                "newer",
                forKey: "akpu",
                accessibility: .whenPasscodeSetThisDeviceOnly
            )
        }
        try other.unlock(.value("5678"))
        try lockbox(other).archiveObject(
            "newer",
            forKey: "akpu",
            accessibility: .whenPasscodeSetThisDeviceOnly
        )
        #expect(try lockbox(one).unarchiveObject(forKey: "akpu") == "newer")

        try one.removePasscode()
        #expect(throws: LockboxError.passcodeNotSet) {
            try lockbox(other).archiveObject(
                "lost?",
                forKey: "akpu",
                accessibility: .whenPasscodeSetThisDeviceOnly
            )
        }
        try one.setPasscode(.value("9"), strength: .interactive)
        expectError(.interactionNotAllowed, "not sealed with the key that was destroyed") {
            try lockbox(other).archiveObject(
                "lost?",
                forKey: "akpu",
                accessibility: .whenPasscodeSetThisDeviceOnly
            )
        }
        #expect(try lockbox(one).unarchiveObject(String.self, forKey: "akpu") == nil)
    }

    @Test func aLockIsNotUndoneByAChangedKeybag() throws {
        let one = try prepare()
        let other = store.backend()
        try other.unlock(.value("1234"))
        try other.lock()
        try one.changePasscode(to: .value("5678"), strength: .interactive)
        try lockbox(other).archiveObject("new", forKey: "ck", accessibility: .afterFirstUnlock)
        #expect(try other.lockState == .locked)
        expectError(.interactionNotAllowed) { try lockbox(other).unarchiveObject(String.self, forKey: "ak") }
    }

    @Test(
        "Promise 2: killed while the passcode is set, changed or removed, one of the two opens the store",
        arguments: ["setPasscode", "changePasscode", "removePasscode"]
    )
    func killedInTheMiddle(_ operation: String) throws {
        if operation == "setPasscode" {
            try lockbox(store.backend()).archiveObject("old", forKey: "ak")
        } else {
            _ = try prepare("old")
        }
        let arguments =
            operation == "setPasscode"
            ? ["new"] : operation == "changePasscode" ? ["old", "new"] : ["old"]
        var number = 0
        var status: Int32 = -SIGKILL
        while status == -SIGKILL {
            number += 1
            let cell = PasscodeTests(try TestStore(copying: store))
            status = try TestProcess(["die-in", cell.store.directory, "\(number)", operation] + arguments)
                .wait()
            #expect(try cell.passcodesThatOpen() == 1, "\(operation), call \(number)")
            #expect(try cell.store.leftovers() == [], "\(operation), call \(number)")
        }
        #expect(status == 0)
        #expect(number > 7)
    }

    /// How many of the three ways in open everything: no passcode, the old one, the new one.
    private func passcodesThatOpen() throws -> Int {
        var count = 0
        if try store.backend().lockState == .noPasscode {
            #expect(try lockbox(store.backend()).unarchiveObject(forKey: "ak") == "old")
            count += 1
        }
        for passcode in ["old", "new"] where try store.backend().lockState != .noPasscode {
            let backend = store.backend()
            guard (try? backend.unlock(.value(passcode))) != nil else { continue }
            #expect(try lockbox(backend).unarchiveObject(forKey: "ak") == "old")
            count += 1
        }
        return count
    }

    /// By another thread, before any of the locks that it takes: no keybag is written without the keys that are locked then.
    @Test(arguments: ["change", "remove", "rotate"]) func lockedInTheMiddle(_ operation: String) throws {
        _ = try prepare("old")
        var number = 0
        while true {
            number += 1
            let cell = PasscodeTests(try TestStore(copying: store))
            let backend = Protected<EncryptedFileBackend?>(nil)
            let lock = Interruption(at: number) {
                let backend = backend.withLock { $0 }
                #expect(throws: Never.self) { try backend?.lock() }
            }
            let calls = SystemCalls { call in
                if call == .flock { lock.call() }
                return nil
            }
            let opened = cell.store.backend(calls)
            backend.withLock { $0 = opened }
            try opened.unlock(.value("old"))
            lock.raise()
            let error = lockboxError {
                switch operation {
                case "change":
                    let passcode = PasscodeSource {
                        lock.call()
                        return Array("new".utf8)
                    }
                    try opened.changePasscode(to: passcode, strength: .interactive)
                case "remove": try opened.removePasscode()
                default: try opened.rotateKeys()
                }
            }
            backend.withLock { $0 = nil }
            #expect(error == nil || error?.code == .interactionNotAllowed, "call \(number)")
            #expect(try cell.passcodesThatOpen() == 1, "call \(number)")
            if !lock.hasHappened { break }
        }
        #expect(number > 2)
    }

    /// Looked at before anything else can use the memory again.
    @Test(.enabled(if: isUnsanitized, "a sanitizer forbids to look at memory that was freed"))
    func thePasscodeIsWipedAfterItsUse() throws {
        let text = Array("a passcode of some length".utf8)
        let address = Protected<UInt>(0)
        let passcode = PasscodeSource {
            let bytes = text.map { $0 }
            address.withLock { address in
                address = bytes.withUnsafeBytes { UInt(bitPattern: $0.baseAddress!) }
            }
            return bytes
        }
        var during: UInt64 = 0
        try passcode.withBytes { during = $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self) }
        let memory = UnsafeRawPointer(bitPattern: address.withLock { $0 })!
        let afterwards = memory.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        #expect(during == text.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self) })
        #expect(afterwards != during)
    }

    @Test func aKilledChangeOfClassLeavesOneOfTheTwo() throws {
        var number = 0
        var status: Int32 = -SIGKILL
        while status == -SIGKILL {
            number += 1
            let store = try TestStore()
            let lockbox = try store.lockbox("com.example.process")
            try lockbox.archiveObject("old", forKey: "key")
            status = try TestProcess(["die-in", store.directory, "\(number)", "changeClass", "key", "ck"])
                .wait()
            let reopened = try store.lockbox("com.example.process")
            #expect(try reopened.unarchiveObject(forKey: "key") == "old", "call \(number)")
            let accessibility = try reopened.attributes(forKey: "key")?.accessibility
            #expect(accessibility == .whenUnlocked || accessibility == .afterFirstUnlock, "call \(number)")
        }
        #expect(status == 0)
    }

    /// In a process of its own, which may lock nothing into RAM.
    @Test(.enabled(if: isUnsanitized, "under a sanitizer mlock does nothing, and succeeds"))
    func itIsSaidWhereKeysMayBeSwappedOut() async {
        await #expect(processExitsWith: .success) {
            var limit = rlimit(rlim_cur: 0, rlim_max: 0)
            // RLIMIT_MEMLOCK, which the Glibc module does not have.
            guard setrlimit(__rlimit_resource_t(8), &limit) == 0 else { exit(2) }
            setuid(65534)  // who is root may do it all the same
            exit(try SecretKey.random().isLockedIntoMemory ? 1 : 0)
        }
    }

    @Test func aPasscodeIsRemovedBesideAnItemThatIsNotSafeToUse() throws {
        let backend = try prepare()
        let lockbox = try lockbox(backend)
        try lockbox.archiveObject("v", forKey: "p", accessibility: .whenPasscodeSetThisDeviceOnly)
        let bound = try store.path("p", prefix: lockbox.keyPrefix)
        try lockbox.archiveObject("v", forKey: "open")
        chmod(try store.path("open", prefix: lockbox.keyPrefix), 0o644)
        try backend.removePasscode()
        #expect(!FileManager.default.fileExists(atPath: bound))
    }

    /// Reads the memory of a process of its own.
    @Test(
        .enabled(if: isUnsanitized, "a sanitizer's memory takes hours to read"),
        arguments: [
            "a passcode of some length",
            "Pa\u{DF}wort, \u{43F}\u{430}\u{440}\u{43E}\u{43B}\u{44C} 🔑 \u{958B}\u{3051}\u{3054}\u{307E}",
        ]
    )
    func keysAndPasscodeAreGoneFromMemoryAfterALock(_ passcode: String) throws {
        let backend = try prepare(passcode)
        let keyring = try backend.keys.currentKeyring()
        let wiped: [Accessibility] = [
            .whenUnlocked, .whenUnlockedThisDeviceOnly, .whenPasscodeSetThisDeviceOnly,
        ]
        let needles = try wiped.flatMap {
            try keyring.key(.classKey($0), epoch: 1).withBytes { $0.map { ~$0 } }
        }
        let folder = Path.parent(of: store.directory)
        try overwrite("\(folder)/needles", needles)
        try overwrite("\(folder)/passcode", Array("\(passcode)\n".utf8))
        try overwrite("\(folder)/inverted-passcode", passcode.utf8.map { ~$0 })
        let block = try #require(try backend.keys.own().keybag.passcode)
        let derived = try PasscodeSource.value(passcode).withBytes { try block.key($0) }
        try overwrite("\(folder)/inverted-derived-key", derived.withBytes { $0.map { ~$0 } })
        let status = try TestProcess("memory", store.directory, folder).wait()
        #expect(status == 0)
    }
}

private let isUnsanitized = ProcessInfo.processInfo.environment["LOCKBOX_SANITIZER"] == nil

extension EncryptedFileBackend {
    fileprivate func removePasscodeAfterUnlocking(_ passcode: String) throws {
        try unlock(.value(passcode))
        try removePasscode()
    }
}
