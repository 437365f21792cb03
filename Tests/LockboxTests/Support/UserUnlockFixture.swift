import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// A store with an item of every class, which is locked, and can be unlocked for every process of the user.
protocol UserUnlockFixture {
    var store: TestStore { get }
    var backend: EncryptedFileBackend { get }
}

extension UserUnlockFixture {
    /// The store, and the backend that has locked it.
    static func lockedStore() throws -> (TestStore, EncryptedFileBackend) {
        let store = try TestStore()
        let backend = store.backend()
        try backend.setPasscode(.value("1234"), strength: .interactive)
        let lockbox = try Lockbox(keyPrefix: "com.example.process", backend: backend)
        for accessibility in Accessibility.allCases {
            try lockbox.archiveObject(
                accessibility.rawValue,
                forKey: accessibility.rawValue,
                accessibility: accessibility
            )
        }
        try backend.lock()
        return (store, backend)
    }

    /// Locks the store for everybody: what the kernel holds would outlast the test.
    func clear() { try? backend.lock(includingAfterFirstUnlock: true) }

    func lockbox(_ backend: EncryptedFileBackend) throws -> Lockbox {
        try Lockbox(keyPrefix: "com.example.process", backend: backend)
    }

    func backend(refusing fault: @escaping @Sendable () -> CInt?) -> EncryptedFileBackend {
        EncryptedFileBackend(
            storage: FileStorage(directory: store.directory),
            deviceKey: .stored,
            kernel: KernelKeyring(fault: fault)
        )
    }

    /// The classes that can be read; what cannot is locked, and nothing else.
    func readable(_ backend: EncryptedFileBackend) throws -> Set<Accessibility> {
        let lockbox = try lockbox(backend)
        return Set(
            try Accessibility.allCases.filter { accessibility in
                do {
                    return try lockbox.unarchiveObject(String.self, forKey: accessibility.rawValue)
                        == accessibility.rawValue
                } catch LockboxError.interactionNotAllowed { return false }
            }
        )
    }

    var all: Set<Accessibility> { Set(Accessibility.allCases) }
    var untilLock: Set<Accessibility> { [.always, .alwaysThisDeviceOnly] }
    var afterLock: Set<Accessibility> {
        untilLock.union([.afterFirstUnlock, .afterFirstUnlockThisDeviceOnly])
    }

    /// The keys that the kernel holds for the store.
    func serials() throws -> [KernelKeyring.Serial] {
        let id = try backend.keys.currentKeyring().storeID
        return UnlockLevel.allCases.compactMap {
            KernelKeyring().serial(of: SharedUnlock.Place(level: $0, isOfNextKeybag: false).name(id))
        }
    }
}
