import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Every state of a program, and the inputs of somebody with the device key, old files and the user's keyring.
@Suite(.serialized) struct KeybagStatesTests {
    enum Start: CaseIterable {
        case nothing, withoutSlots, forgedWithoutSlots, locked
        case passcode, passcodeAndLock, passcodeAndLockOfAll, passcodeAndService, service
        case user, kernel, kernelAfterLock, changed
    }

    enum Step: CaseIterable {
        // Keybags
        case newest, older, firstStage, withoutSlots, removedSlots, hiddenSlots
        case otherSlot, otherSlotLater, knownUnlockKeys, ownSlots, formerKey, currentKey
        // The kernel's records
        case nothingInKernel, forgedRecords, leftRecord
        // The program
        case unlock, unlockForService, lock
    }

    /// Made once.
    final class World {
        let store: TestStore
        let forger: Forger
        let (before, older, newest): (KeyFiles, KeyFiles, KeyFiles)
        let firstStage: KeyFiles
        let beforeKeys: KeybagContents
        let formerKey: SecretKey
        let currentKey: SecretKey
        let key = SecretUnlock.key(.bytes([UInt8](repeating: 9, count: 32)))
        let planted: String
        let new: String
        /// Sealed with the keys of the first epoch.
        let oldItem: [UInt8]

        init() throws {
            store = try TestStore()
            try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked, "after": .afterFirstUnlock])
            before = try store.keyFiles()
            let keybag = try store.openedKeybag()
            let unlockKeys = try keybag.open(keybag.unlockKeys(with: nil)).unlockKeys
            beforeKeys = try #require(try KeybagContents(after: keybag, unlockKeys: unlockKeys))
            (planted, new) = (try store.path("planted"), try store.path("new"))
            oldItem = try World.seal(.whenUnlocked, keybag.keyring())
            forger = try Forger(store)
            let owner = try store.backend().setUp(recovery: RecoveryCode())
            try owner.addSlot(key, label: "a service")
            older = try store.keyFiles()
            formerKey = try #require(try owner.keyStore.current().unlockKeys[.afterFirstUnlock])
            let (first, generation) = (Protected<KeyFiles?>(nil), try store.openedKeybag().generation)
            let other = store.backend(
                .atEachGeneration(of: store) { [store] number, _ in
                    if number == generation + 1 { first.withLock { $0 = try? store.keyFiles() } }
                }
            )
            try other.unlock(.value("1234"))
            try other.rotateKeys()
            newest = try store.keyFiles()
            firstStage = try #require(first.withLock { $0 })
            currentKey = try #require(try other.keyStore.current().unlockKeys[.afterFirstUnlock])
        }

        static func seal(_ accessibility: Accessibility, _ keyring: Keyring) throws -> [UInt8] {
            let key = try ItemKey(prefix: TestStore.prefix, key: "planted")
            let item = try StoredItem(
                key: key,
                value: ArchivedValue(data: Data("forged".utf8), format: .data),
                accessibility: accessibility,
                modified: Date(),
                searchable: [:]
            )
            return try ItemEnvelope.seal(item, id: keyring.itemID(key), keyring: keyring)
        }
    }

    /// One sequence.
    final class Run {
        let world: World
        let program: EncryptedFileBackend
        var known: [Keyring.Entry]
        var forged: KeybagContents?
        var isOwn = false, isService = false, isLocked = false, isFormer = false, isCurrent = false
        var isLeft = false, isForUser = false, hasForgedRecords = false
        var isLater = false
        var faults: [String] = []

        init(_ world: World, _ start: Start) throws {
            self.world = world
            let store = world.store
            program = store.backend(remembers: false)
            known = world.beforeKeys.keys
            _ = try UserUnlock(kernel: KernelKeyring()).remove(world.beforeKeys.storeID)
            try store.putBack(world.newest)
            switch start {
            case .nothing: break
            case .withoutSlots:
                try store.putBack(world.before)
                _ = try program.slots
                try store.putBack(world.newest)
            case .forgedWithoutSlots: try take(.hiddenSlots)
            case .locked: _ = try program.slots
            case .passcode: try take(.unlock)
            case .passcodeAndLock: try take(.unlock); try take(.lock)
            case .passcodeAndLockOfAll:
                try take(.unlock)
                try program.lock(includingAfterFirstUnlock: true)
                isLocked = true
            case .passcodeAndService: try take(.unlock); try take(.unlockForService)
            case .service: try take(.unlockForService)
            case .user:
                try #require(try program.unlock(.value("1234"), scope: .user) == .user)
                (isOwn, isForUser) = (true, true)
            case .kernel, .kernelAfterLock:
                let other = store.backend(remembers: false)
                try #require(try other.unlock(.value("1234"), scope: .user) == .user)
                if start == .kernelAfterLock { try other.lock() }
                _ = try program.lockbox().unarchiveObject(String.self, forKey: "after")
            case .changed:
                try store.putBack(world.older)
                try take(.unlock)
                try store.putBack(world.newest)
                _ = try program.slots
            }
        }

        func place(_ make: () throws -> KeybagContents) throws {
            try world.store.putBack(world.newest)
            let contents = try make()
            forged = contents
            known += contents.keys
        }

        /// Of level 2, listing the owner's slots.
        func placeDowngraded(_ key: SecretKey, _ files: KeyFiles) throws {
            var slots = try Keybag.read(files.keybag, world.store.keysOf(files)).slots
            for index in slots.indices { slots[index].grants.removeAll { $0.level == .unlocked } }
            try place {
                try world.forger.replaceSlots {
                    $0.generation -= 1; $0.unlockKeys[.afterFirstUnlock] = key
                }
            }
            let keys = try world.store.deviceKeys()
            try overwriteBoth(world.store.keybag, forged!.encoded(deviceKey: keys[0], listing: slots))
        }

        func take(_ step: Step) throws {
            let (store, forger) = (world.store, world.forger)
            switch step {
            case .newest: try store.putBack(world.newest)
            case .older: try store.putBack(world.older)
            case .firstStage: try store.putBack(world.firstStage)
            case .withoutSlots: try store.putBack(world.before)
            case .removedSlots:
                isLater = true
                try store.putBack(world.newest)
                try forger.removeSlots()
                let keybag = try store.openedKeybag()
                known += try keybag.open(keybag.unlockKeys(with: nil)).keys
            case .hiddenSlots: try place { try forger.hideSlots() }
            case .otherSlot: try place { try forger.replaceSlots { $0.generation -= 1 } }
            case .otherSlotLater:
                isLater = true
                try place { try forger.replaceSlots(isLater: true) }
            case .knownUnlockKeys:
                try place {
                    try forger.replaceSlots {
                        $0.generation -= 1; $0.unlockKeys = world.beforeKeys.unlockKeys
                    }
                }
            case .ownSlots:
                let slots = try Keybag.read(world.newest.keybag, store.keysOf(world.newest)).slots
                try place { try forger.replaceSlots { $0.generation -= 1 } }
                try overwrite(
                    store.keybag,
                    forged!.encoded(deviceKey: store.deviceKeys()[0], listing: slots)
                )
            case .formerKey:
                isFormer = true
                try placeDowngraded(world.formerKey, world.older)
            case .currentKey:
                isCurrent = true
                isLater = true
                try place {
                    try forger.replaceSlots(isLater: true) {
                        $0.unlockKeys[.afterFirstUnlock] = world.currentKey
                    }
                }
                try? store.publish([.afterFirstUnlock: world.currentKey])
            case .nothingInKernel:
                _ = try UserUnlock(kernel: KernelKeyring()).remove(world.beforeKeys.storeID)
            case .forgedRecords:
                hasForgedRecords = true
                if let forged { try? store.publish(forged.unlockKeys) }
            case .leftRecord:
                isLeft = true
                try? store.publish([.afterFirstUnlock: world.currentKey])
            case .unlock:
                do {
                    try program.unlock(.value("1234"))
                    (isOwn, isLocked) = (true, false)
                } catch is LockboxError {}
            case .unlockForService:
                do {
                    try program.unlock(with: world.key)
                    isService = true
                } catch is LockboxError {}
            case .lock:
                try? program.lock()
                isLocked = true
            }
        }

        /// Whether the attacker's keys open the value.
        func isKnown(_ path: String) throws -> Bool {
            let bytes = try readBytes(path)
            var copy = bytes
            let found = copy.withUnsafeMutableBytes { ItemHeader.beginning(of: $0) }
            guard let header = found else { return false }
            let keybag = try Keybag.read(world.before.keybag, world.store.keysOf(world.before))
            let names = known.first { $0.id.role == .names }!
            let id = Keyring.KeyID(.classKey(header.accessibility), header.epoch)
            for (_, key) in known {
                let keyring = try Keyring(keybag: keybag, keys: [names, (id, key)])
                var copy = bytes
                let opened = copy.withUnsafeMutableBytes { bytes in
                    let item = try? ItemKey(prefix: TestStore.prefix, key: "new")
                    return try? ItemEnvelope.openValue(
                        bytes,
                        id: keyring.itemID(item!),
                        keyring: keyring,
                        now: nil
                    )
                }
                if opened != nil { return true }
            }
            return false
        }

        func check(_ name: String) throws {
            guard isOwn || isService else { return }
            let lockbox = try program.lockbox()
            for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock] {
                // Somebody who knows the unlock key of `afterFirstUnlock` has these items.
                if accessibility == .afterFirstUnlock, isCurrent || isLeft { continue }
                if accessibility == .afterFirstUnlock, isFormer, !isOwn || isLocked { continue }
                // A program that relies on the kernel takes forged records: of level 2, and with a service's slot of level 1.
                if accessibility == .afterFirstUnlock, isForUser, hasForgedRecords { continue }
                if accessibility == .whenUnlocked, !isOwn, isCurrent || isLeft, hasForgedRecords { continue }
                try? FileManager.default.removeItem(atPath: world.new)
                if (try? lockbox.archiveObject("next", forKey: "new", accessibility: accessibility)) != nil,
                    FileManager.default.fileExists(atPath: world.new), try isKnown(world.new)
                {
                    faults.append("a value under known keys: \(accessibility) \(name)")
                }
                try? FileManager.default.removeItem(atPath: world.new)
                var items: [(String, [UInt8])] = []
                if let keybag = try? world.store.openedKeybag(), !keybag.slots.isEmpty {
                    let ids = Set(keybag.keyIDs)
                    let keys = known.reversed().reduce(into: [Keyring.KeyID: SecretKey]()) {
                        if ids.contains($1.id), $0[$1.id] == nil { $0[$1.id] = $1.key }
                    }
                    let all = keys.map { ($0.key, $0.value) }
                    if let keyring = try? Keyring(keybag: keybag, keys: all),
                        let bytes = try? World.seal(accessibility, keyring)
                    {
                        items.append(("a forged item", bytes))
                    }
                }
                if accessibility == .whenUnlocked { items.append(("a retired key", world.oldItem)) }
                for (kind, item) in items {
                    try overwrite(world.planted, item)
                    if (try? lockbox.unarchiveObject(Data.self, forKey: "planted")) != nil {
                        faults.append("\(kind) \(accessibility) \(name)")
                    }
                }
                try? FileManager.default.removeItem(atPath: world.planted)
            }
        }

        /// The owner's keybag is back.
        func end(_ name: String) throws {
            if isLater { return }
            try take(.newest)
            try take(.nothingInKernel)
            let error = lockboxError {
                try program.unlock(.value("1234"))
                #expect(try program.lockbox().unarchiveObject(forKey: "k") == "old")
            }
            if let error { faults.append("the owner is refused: \(error.code) \(name)") }
        }
    }

    /// All of one step, and each of two or three steps that has been a fault.
    private static let sequences: [[Step]] =
        Step.allCases.map { [$0] } + [
            [.knownUnlockKeys, .newest, .unlockForService],
            [.knownUnlockKeys, .unlockForService, .removedSlots],
            [.hiddenSlots, .knownUnlockKeys, .unlockForService], [.formerKey, .unlock],
            [.unlock, .formerKey],
            [.unlock, .unlockForService, .formerKey], [.leftRecord, .currentKey, .unlock],
        ]

    @Test(.needsKernelKeyring, arguments: Start.allCases) func noSequenceGivesTheForgerAnything(
        _ start: Start
    ) throws {
        let world = try World()
        defer { world.store.lockForEverybody() }
        for steps in Self.sequences {
            let name = "\(start), \(steps)"
            let run = try Run(world, start)
            for step in steps {
                try run.take(step)
                _ = try? run.program.slots
                _ = try? run.program.lockbox().unarchiveObject(String.self, forKey: "k")
            }
            try run.check(name)
            try run.end(name)
            #expect(run.faults.isEmpty)
        }
    }
}

extension TestStore {
    fileprivate func keysOf(_ files: KeyFiles) throws -> [SecretKey] {
        try files.deviceKey.withUnsafeBytes { try DeviceKeyRecord.decode($0) }
    }
}
