import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// The keys on a storage without locks, as in a cluster.
@Suite struct SharedStoreTests {
    // MARK: Outages

    /// Takes its time to find that nobody answers.
    private struct UnreachableStorage: WrappingStorage {
        let target = InMemoryStorage()
        let time: Duration
        let reads = Protected(0)

        func begin(_ call: StorageCall) throws {
            guard case .read = call else { return }
            reads.withLock { $0 += 1 }
            Thread.sleep(forTimeInterval: Double(time.components.attoseconds) / 1e18)
            throw LockboxError.notReachable(endpoint: "here", reason: "nobody answers")
        }
    }

    /// Threads that start during an outage wait as long as one, and not one after the other.
    @Test func anOutageIsWaitedForOnce() async throws {
        let storage = UnreachableStorage(time: .milliseconds(300))
        let backend = SealedBackend(storage: storage)
        let failed = Protected(0)
        let done = (0..<16).map { _ in DispatchSemaphore(value: 0) }
        for thread in done {
            Thread.detachNewThread {
                do { _ = try backend.prefixes() } catch LockboxError.notReachable {
                    failed.withLock { $0 += 1 }
                } catch {}
                thread.signal()
            }
        }
        await withCheckedContinuation { all in
            Thread.detachNewThread {
                done.forEach { $0.wait() }
                all.resume()
            }
        }
        #expect(failed.withLock { $0 } == 16)
        #expect(storage.reads.withLock { $0 } <= 4, "a thread may come when the first one has just failed")
        // A later call asks again.
        let before = storage.reads.withLock { $0 }
        expectError(.notReachable) { try backend.prefixes() }
        #expect(storage.reads.withLock { $0 } > before)
    }

    // MARK: Other machines

    /// Records that machines share.
    private struct SharedStorage: WrappingStorage {
        let target: InMemoryStorage
        let calls = Protected(0)

        var limits: StorageLimits {
            StorageLimits(
                maximumRecordLength: .max,
                maximumChanges: .max,
                isTransactional: true,
                isOnThisDevice: false
            )
        }

        func begin(_ call: StorageCall) { calls.withLock { $0 += 1 } }
    }

    /// Even if the item is one that the old keys still open.
    @Test func aReadNoticesWhatAnotherMachineHasChanged() throws {
        let records = InMemoryStorage()
        func machine(_ storage: SharedStorage) -> SealedBackend {
            let deviceKey = DeviceKeySource.bytes([UInt8](repeating: 7, count: 32))
            let kernel = KernelKeyring { EPERM }
            return SealedBackend(KeyStore(storage: storage, deviceKey: deviceKey, kernel: kernel))
        }
        let storage = SharedStorage(target: records)
        let (one, other) = (machine(SharedStorage(target: records)), machine(storage))
        let lockbox = try one.lockbox("p")
        try lockbox.archiveObject("v", forKey: "k")
        let others = try other.lockbox("p")
        let keybag = RecordName.keybag
        func record() throws -> Record { try #require(records.read([keybag], maximum: .max)[keybag]) }
        func put(_ record: Record) throws {
            _ = records.commit([.put(keybag, record.bytes)], expecting: [:])
        }
        // An item that former keys open costs another look at the keybag.
        for (cost, read) in [
            (2, { try others.unarchiveObject(String.self, forKey: "k") }),
            (2, { try others.attributes(forKey: "k").map { _ in "v" } }),
            (1, { try others.unarchiveObject(String.self, forKey: "absent") ?? "v" }),
        ] as [(Int, () throws -> String?)] {
            #expect(try read() == "v")
            let old = try record()
            try one.setPasscode(.value("1234"), strength: .interactive, resealing: false)
            try one.removePasscode(resealing: false)
            #expect(try read() == "v")
            #expect(try other.keyStore.opened?.keybag.generation == one.keyStore.current().keybag.generation)
            let before = storage.calls.withLock { $0 }
            #expect(try read() == "v")
            #expect(storage.calls.withLock { $0 } == before + cost)
            let new = try record()
            try put(old)
            expectError(.rolledBack) { try read() }
            try put(new)
        }
    }

    // MARK: Records in the kernel

    /// The store is locked or unlocked while another process replaces the keybag.
    @Test(.needsKernelKeyring, arguments: 0..<5)
    func aLockOrUnlockDuringAChangeStays(_ event: Int) throws {
        let unlock = UserUnlock(kernel: KernelKeyring())
        let keybag = try KeybagContents(), device = try SecretKey.random()
        let slotless = try keybag.encoded(deviceKey: device)
        var bytes = slotless
        let old = try bytes.withUnsafeMutableBytes { try Keybag($0, deviceKeys: [device]) }
        defer { _ = try? unlock.remove(old.storeID) }
        let (present, new) = (keybag.unlockKeys, try KeybagContents().unlockKeys)
        let keys = UserUnlock.NextKeys(store: old.storeID, device: device, unlockKeys: new)
        func serial(_ level: UnlockLevel) -> KernelKeyring.Serial? {
            KernelKeyring().serial(
                of: SharedUnlock.KeyKind(level: level, isOfNextKeybag: false).name(old.storeID)
            )
        }
        func next(_ level: UnlockLevel) -> KernelKeyring.Serial? {
            let place = SharedUnlock.KeyKind(level: level, isOfNextKeybag: true)
            return KernelKeyring().serial(of: place.name(old.storeID))
        }
        #expect(try unlock.publish(old, present, deadline: 0))
        let records = try UnlockLevel.allCases.map { level in
            let key = try #require(present[level])
            return UserUnlock.Published(
                record: SharedUnlock(level: level, deadline: 0, key: key),
                key: try #require(serial(level))
            )
        }
        if event == 4 { try unlock.remove(old.storeID) }
        unlock.announce(records, for: keys)
        switch event {
        case 0: break
        case 4:
            #expect(
                UnlockLevel.allCases.allSatisfy { next($0) == nil },
                "it stays locked from the first step on"
            )
        case 1: try unlock.remove(old.storeID)
        case 2: try unlock.remove(old.storeID, [.unlocked])
        default: #expect(try unlock.publish(old, new, deadline: 0))
        }
        let before = UnlockLevel.allCases.map(serial)
        try unlock.republish(records, for: keys)
        let after = UnlockLevel.allCases.map(serial)
        switch event {
        case 0:
            #expect(zip(before, after).allSatisfy { $1 != nil && $0 != $1 }, "the control: they are replaced")
        case 1, 4: #expect(after.allSatisfy { $0 == nil })
        case 2: #expect(serial(.unlocked) == nil && serial(.afterFirstUnlock) != nil)
        default: #expect(before == after)
        }
        #expect(UnlockLevel.allCases.allSatisfy { next($0) == nil })
    }

    /// Between the two steps of a change another process changes the keys, where no lock keeps it out.
    @Test func aChangeThatIsOvertakenSaysThatItMayBeMade() throws {
        let memory = InMemoryStorage()
        func open(_ storage: any RecordStorage) -> SealedBackend {
            let source = DeviceKeySource.bytes([UInt8](repeating: 7, count: 32))
            return SealedBackend(
                KeyStore(storage: storage, deviceKey: source, kernel: KernelKeyring { ENOSYS })
            )
        }
        let (other, commits) = (open(memory), Protected(0))
        try other.setPasscode(.value("1234"), strength: .interactive)
        let storage = LimitedStorage(target: memory) {
            guard commits.next() == 1 else { return }
            #expect(throws: Never.self) {
                try other.unlock(.value("5678"))
                try other.rotateKeys()
            }
        }
        let backend = open(storage)
        try backend.unlock(.value("1234"))
        expectError(.outcomeUnknown) {
            try backend.changePasscode(from: .value("1234"), to: .value("5678"), strength: .interactive)
        }
        #expect(try open(memory).unlock(.value("5678")) == .process)
    }

}
