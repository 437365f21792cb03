import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// What this user's programs remember of stores.
@Suite struct StoreMemoryTests {
    private let store: TestStore
    private let code = RecoveryCode()
    /// The memory of another user of the store.
    private let other: StoreMemory

    init() throws {
        store = try TestStore()
        other = StoreMemory(store.memory.path + "-of-another-user", of: store.directory)
    }

    private func otherProgram() -> EncryptedFileBackend { store.backend(memory: other) }

    private func unlock(_ program: EncryptedFileBackend) throws {
        try program.unlock(with: .recoveryCode(.value(code.text)))
    }

    @Test func onlyAnUnlockOfAllClassesIsRemembered() throws {
        let key = SecretUnlock.key(.bytes([UInt8](repeating: 9, count: 32)))
        let owner = try store.backend().setUp(passcode: nil, recovery: code, items: ["k": .always])
        try owner.addSlot(key, label: "")
        let program = otherProgram()
        _ = try program.slots
        #expect(try program.lockbox().unarchiveObject(forKey: "k") == "old")
        try program.lockbox().archiveObject("next", forKey: "k", accessibility: .always)
        try program.unlock(with: key)
        #expect(!FileManager.default.fileExists(atPath: other.path))
        try unlock(program)
        let keybag = try store.openedKeybag()
        #expect(
            other.entries == [
                .init(
                    store: keybag.storeID,
                    owner: keybag.owner.key,
                    numbers: .init(keybag),
                    folder: store.directory
                )
            ]
        )
        #expect(try TestStore.Entry(other.path).mode == S_IFREG | 0o600)
    }

    /// A power cut could leave the keybag before it.
    @Test func aKeybagThatIsNotDurableIsNotRemembered() throws {
        _ = try store.backend().setUp(passcode: nil, recovery: code)
        let calls = SystemCalls { $0 == .fsync ? .failure(EIO) : nil }
        try unlock(store.backend(calls, memory: other))
        #expect(other.entries.isEmpty)
        try unlock(otherProgram())
        #expect(other.entries.count == 1)
    }

    /// Others could have written it.
    @Test func aFileThatOthersMayWriteIsNotBelieved() throws {
        try unlock(store.backend().setUp(passcode: nil, recovery: code))
        #expect(store.memory.entries.count == 1)
        chmod(store.memory.path, 0o620)
        #expect(store.memory.entries.isEmpty)
        try unlock(store.backend())
        #expect(store.memory.entries.count == 1, "it is made anew")
    }

    @Test func whatIsNoEntryIsPassedOver() throws {
        try unlock(store.backend().setUp(passcode: nil, recovery: code))
        let (path, entries) = (store.memory.path, store.memory.entries)
        let id = String(repeating: "0", count: 32)
        let lines = [
            "", "#", id, "\(id) - 1", "\(id) - -1 1", "\(id) 00 1 1", "\(id)00 - 1 1", "\(id) - 1 4294967296",
            "\(id) - 281474976710656 1",
        ]
        let text = try String(decoding: readBytes(path), as: UTF8.self)
        try overwrite(path, Array((lines.joined(separator: "\n") + "\n" + text).utf8))
        #expect(store.memory.entries == entries)
    }

    /// Other users change passcode, slots and keys: each owner's key certifies the next.
    @Test func theMemoryFollowsTheChangesOfOthers() throws {
        let owner = try store.backend().setUp(passcode: nil, recovery: code, items: ["k": .whenUnlocked])
        try unlock(otherProgram())
        let first = try #require(other.entries.first)
        for _ in 0..<KeybagOwner.maximumFormer { try owner.rotateKeys() }
        _ = try otherProgram().slots
        let last = try store.openedKeybag()
        #expect(other.entries.map(\.owner) == [last.owner.key], "it moves on without an unlock")
        try unlock(otherProgram())
        let old = StoreMemory(store.memory.path + "-that-slept", of: store.directory)
        old.remember(first.store, first.owner, numbers: first.numbers)
        _ = try store.backend(memory: old).slots
        try old.forget()
        old.remember(first.store, first.owner, numbers: first.numbers)
        try owner.rotateKeys()
        expectError(.authenticationFailed) { _ = try store.backend(memory: old).slots }
        try store.backend(memory: old).acceptRestored(.recoveryCode(.value(code.text)))
        try unlock(store.backend(memory: old))
    }

    @Test func theRemovalOfAllSlotsIsFollowedAndEndsIt() throws {
        let owner = try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        try unlock(otherProgram())
        try owner.removePasscode(includingOtherSlots: true)
        #expect(try otherProgram().lockbox().unarchiveObject(forKey: "k") == "old")
        #expect(other.entries.map(\.owner) == [nil])
        try owner.setPasscode(.value("5678"), strength: .interactive)
        try otherProgram().unlock(.value("5678"))
        #expect(try other.entries.map(\.owner) == [store.openedKeybag().owner.key])
    }

    /// A home that is not this user's, as with `sudo`, or a file in the folder's place.
    @Test func nothingIsWrittenWhereItDoesNotBelong() throws {
        let folder = Path.parent(of: store.directory)
        try overwrite("\(folder)/file", [])
        mkdir("\(folder)/open", 0o700)
        chmod("\(folder)/open", 0o777)
        for place in ["\(folder)/file/a", "\(folder)/open", "/proc/self/a"] {
            let memory = StoreMemory("\(place)/known-stores", of: nil)
            memory.remember(.random(), nil, numbers: .init(generation: 1, epoch: 1))
            #expect(memory.entries.isEmpty && !FileManager.default.fileExists(atPath: memory.path))
        }
    }

    // MARK: Many programs and stores

    @Test func changesAtOnceAreAllRemembered() throws {
        let stores = (0..<32).map { StoreID(repeating: UInt8($0)) }
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for generation in 1...8 {
                for store in stores[(4 * thread)..<(4 * thread + 4)] {
                    let memory = StoreMemory(self.store.memory.path, of: nil)
                    memory.remember(store, nil, numbers: .init(generation: UInt64(generation), epoch: 1))
                    // From a process that read the keybag before, and was slow.
                    memory.remember(store, nil, numbers: .init(generation: UInt64(generation / 2), epoch: 1))
                }
            }
        }
        let memory = StoreMemory(store.memory.path, of: nil)
        #expect(Set(memory.entries.map(\.numbers.generation)) == [8])
    }

    /// It writes what it has read when it goes on, so the others leave the file as it is.
    @Test func aProgramThatWasStoppedWithTheLockStopsNoOther() throws {
        let memory = StoreMemory(store.memory.path, of: nil)
        let remembered = { memory.entries.map(\.numbers.generation) }
        memory.remember(StoreID(repeating: 1), nil, numbers: .init(generation: 1, epoch: 1))
        let held = open(Path.parent(of: memory.path), O_RDONLY | O_CLOEXEC)
        try #require(flock(held, LOCK_EX | LOCK_NB) == 0)
        memory.remember(StoreID(repeating: 1), nil, numbers: .init(generation: 2, epoch: 1))
        #expect(remembered() == [1])
        memory.remember(StoreID(repeating: 1), nil, numbers: .init(generation: 3, epoch: 1), isAccepted: true)
        #expect(remembered() == [3], "what the owner waits for is written")
        close(held)
        memory.remember(StoreID(repeating: 1), nil, numbers: .init(generation: 4, epoch: 1))
        #expect(remembered() == [4])
    }

    /// Between two changes of the file, another store could be put into the folder.
    @Test func anAcceptedStoreIsRememberedInOneStep() throws {
        let memory = StoreMemory(store.memory.path, of: store.directory)
        memory.remember(StoreID(repeating: 1), nil, numbers: .init(generation: 9, epoch: 1))
        memory.remember(StoreID(repeating: 1), nil, numbers: .init(generation: 2, epoch: 1))
        #expect(memory.entries.map(\.numbers.generation) == [9])
        memory.remember(StoreID(repeating: 1), nil, numbers: .init(generation: 2, epoch: 1), isAccepted: true)
        #expect(memory.entries.map(\.numbers.generation) == [2])
    }

    @Test func onlyTheStoresThatWereChangedLastAreRemembered() throws {
        let (count, id) = (StoreMemory.maximumEntries + 5, String(repeating: "0", count: 29))
        mkdir(Path.parent(of: store.memory.path), 0o700)
        let lines = (0..<count).map { "\(id)\(100 + $0) - \($0) 1\n" }
        try overwrite(store.memory.path, Array(lines.joined().utf8))
        store.memory.remember(.random(), nil, numbers: .init(generation: UInt64(count), epoch: 1))
        #expect(store.memory.entries.map(\.numbers.generation) == (6...count).map(UInt64.init))
    }
}
