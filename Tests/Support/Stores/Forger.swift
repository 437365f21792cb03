import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Somebody who has the device key and can write files, but cannot unlock the store. They know it from before it had a passcode.
struct Forger: Sendable {
    /// May be a copy.
    var store: TestStore
    private let known: [Keyring.Entry]
    /// With the forger's slot and lineage. It says that nothing was retired, and that the store has had slots from its first epoch.
    private let own: KeybagContents

    init(_ store: TestStore) throws {
        self.store = store
        let before = try store.openedKeybag()
        let unlockKeys = try before.unlockKeys(with: nil)
        known = try before.open(unlockKeys).keys
        var own = try #require(try KeybagContents(after: before, unlockKeys: unlockKeys))
        let code = SecretUnlock.recoveryCode(.value(RecoveryCode().text))
        let keyStore = store.backend().keyStore
        own.slots = [try keyStore.slots.make(code, label: "", opensAllClasses: true, own.storeID).slot]
        (own.keys, own.epoch) = ([], 0)
        try own.beginEpoch()
        self.own = own
    }

    /// The next generation with the owner's list of keys. Those that neither the device key opens nor the forger knows are the
    /// forger's own.
    private func contents(_ owner: Keybag) throws -> KeybagContents {
        var forged = own
        (forged.generation, forged.epoch) = (owner.generation + 1, owner.epoch)
        let known = try known + owner.open([:]).keys
        forged.keys = try owner.keyIDs.map { id in
            (id, try known.first { $0.id == id }?.key ?? .random())
        }
        return forged
    }

    @discardableResult
    private func place(
        _ forged: KeybagContents,
        _ change: (inout KeybagContents) throws -> Void = { _ in }
    ) throws -> KeybagContents {
        var forged = forged
        try change(&forged)
        try overwriteBoth(store.keybag, forged.encoded(deviceKey: store.deviceKeys()[0]))
        return forged
    }

    /// A keybag without slots, which the device key opens, and an epoch of the forger's.
    func removeSlots() throws {
        try place(contents(store.openedKeybag())) {
            $0.slots = []
            try $0.beginEpoch()
        }
    }

    /// A keybag without slots that has the numbers of the owner's.
    func hideSlots() throws -> KeybagContents {
        try place(contents(store.openedKeybag())) {
            $0.slots = []
            $0.generation -= 1
        }
    }

    /// A keybag with the forger's slot.
    ///
    /// - Parameters:
    ///   - isLater: Whether it begins an epoch of the forger's.
    ///   - own: The owner's slots that it lists too.
    ///   - change: The last thing that is done to it.
    @discardableResult
    func replaceSlots(
        isLater: Bool = false,
        keeping own: [KeybagSlot] = [],
        _ change: (inout KeybagContents) throws -> Void = { _ in }
    ) throws -> KeybagContents {
        var forged = try contents(store.openedKeybag())
        forged.slots += try own.map {
            .init(slot: $0, authentication: [.unlocked: try .random(), .afterFirstUnlock: try .random()])
        }
        if isLater { try forged.beginEpoch() }
        return try place(forged, change)
    }
}

extension TestStore {
    /// Puts unlock keys into the kernel, as any program of the user can.
    func publish(_ keys: [UnlockLevel: SecretKey]) throws {
        try #require(try UserUnlock(kernel: KernelKeyring()).publish(openedKeybag(), keys, deadline: 0))
    }

    /// Plants an item in the place of the one that the key belongs to. Keys of classes that are locked are the forger's own.
    ///
    /// - Parameter keys: Some of the forger's.
    func plant(
        at key: String,
        naming named: String,
        _ accessibility: Accessibility = .whenUnlocked,
        _ attributes: [String: String] = [:],
        sealedWith keys: [Keyring.Entry] = []
    ) throws {
        let item = try StoredItem(
            key: ItemKey(prefix: TestStore.prefix, key: named),
            value: ArchivedValue(data: Data("forged".utf8), format: .data),
            accessibility: accessibility,
            modified: Date(),
            searchable: attributes
        )
        try plant(item, at: ItemKey(prefix: TestStore.prefix, key: key), sealedWith: keys)
    }

    func plant(_ item: StoredItem, at key: ItemKey, sealedWith keys: [Keyring.Entry] = []) throws {
        let keybag = try openedKeybag()
        let open = try keybag.open(keybag.unlockKeys(with: nil)).keys + keys
        let own = try Accessibility.allCases.map(KeyRole.classKey)
            .map { (Keyring.KeyID($0, keybag.epoch), try SecretKey.random()) }
            .filter { id, _ in !open.contains { $0.id == id } }
        let keyring = try Keyring(keybag: keybag, keys: open + own)
        let backend = backend()
        let path = backend.storage.location(of: try backend.recordName(of: key))
        try overwrite(path, ItemEnvelope.seal(item, id: keyring.itemID(key), keyring: keyring))
    }
}
