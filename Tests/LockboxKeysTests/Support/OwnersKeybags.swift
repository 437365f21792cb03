import Foundation
import Testing

@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The keybags of one store, its owner's and those of attackers, in memory.
struct OwnersKeybags {
    private let device: SecretKey
    /// Of the epochs 2, 4 and 5: before the first slot, before the last change, and now.
    private let first: KeybagContents
    let former, present: KeybagContents

    init() throws {
        device = try .random()
        first = try KeybagContents().next()
        var protected = first
        protected.slots = [try Self.slot(first.storeID)]
        former = try protected.next(2)
        present = try former.next()
    }

    /// A recovery code, which costs no Argon2id.
    private static func slot(_ store: StoreID) throws -> KeybagContents.Slot {
        let code = SecretUnlock.recoveryCode(.value(RecoveryCode().text))
        return try Slots().make(code, label: "", opensAllClasses: true, store).slot
    }

    func read(_ contents: KeybagContents) throws -> Keybag {
        try Keybag.read(contents.encoded(deviceKey: device), [device])
    }

    func keybag(_ given: KnowledgeTests.Given) throws -> Keybag {
        switch given {
        case .present: return try read(present)
        case .next: return try read(present.next())
        case .after32Changes: return try read(present.next(32))
        case .after33Changes: return try read(present.next(33))
        case .withoutSlots: return try read(withoutSlots())
        case .withANewFirstSlot: return try read(withFirstSlot(withoutSlots()).next())
        case .former: return try read(former)
        case .presentWithRetiredKeys:
            var retired = present
            retired.generation -= 1
            return try read(retired)
        case .formerOfAHigherGeneration:
            var retired = former
            retired.generation += 40
            return try read(retired)
        case .unsigned: return try reseal(present.next()) { $0[$0.count - 17] ^= 1 }
        case .forged: return try read(forged())
        case .forgedWithoutSlots: return try read(forged(hasSlots: false))
        case .forgedOfTheHighestNumbers:
            var highest = try forged()
            (highest.generation, highest.epoch) = (.max, .max)
            return try read(highest)
        case .forgedWithTheOwnersRoot: return try forgedWithTheOwnersRoot()
        case .successorOfTheFormer: return try read(former.next(3))
        case .successorOfThePresent: return try read(present.next(3))
        }
    }

    private func withoutSlots() throws -> KeybagContents {
        var open = present
        open.slots = []
        return try open.next()
    }

    /// Its epoch is not begun yet.
    func withFirstSlot(_ open: KeybagContents? = nil) throws -> KeybagContents {
        var protected = open ?? first
        protected.slots = [try Self.slot(first.storeID)]
        return protected
    }

    /// Of the next numbers, and with keys of the attacker's.
    func forged(hasSlots: Bool = true) throws -> KeybagContents {
        var forged = try KeybagContents(present.storeID)
        if hasSlots { forged.slots = [try Self.slot(present.storeID)] }
        forged = try forged.next()
        (forged.generation, forged.epoch) = (present.generation + 1, present.epoch + 1)
        return forged
    }

    /// With the statement of the owner's root key in the place of the attacker's.
    private func forgedWithTheOwnersRoot() throws -> Keybag {
        let forged = try forged()
        let signer = try SigningKey(seed: read(forged).open(forged.unlockKeys).seeds[1])
        return try reseal(forged) { record in
            let (own, owners) = (forged.owner.root, present.owner.root)
            let place = try #require(Data(record).range(of: Data(own.issuer + own.signature)))
            record.replaceSubrange(place, with: owners.issuer + owners.signature)
            let start = KeybagHeader.length + SealedBox.prefixLength
            let end =
                record.count - (SealedBox.overhead - SealedBox.prefixLength) - SigningKey.signatureLength
            let message = record.withUnsafeBytes {
                KeybagSignature.message(
                    UnsafeRawBufferPointer(rebasing: $0[..<KeybagHeader.length]),
                    UnsafeRawBufferPointer(rebasing: $0[start..<end])
                )
            }
            record.replaceSubrange(end..<(end + SigningKey.signatureLength), with: try signer.sign(message))
        }
    }

    /// Changes what the device key opens.
    private func reseal(_ contents: KeybagContents, _ change: (inout [UInt8]) throws -> Void) throws -> Keybag
    {
        var record = try contents.encoded(deviceKey: device)
        _ = record.withUnsafeMutableBytes { KeybagHeader.openBox($0, device) }  // in place
        try change(&record)
        record.withUnsafeMutableBytes { KeybagHeader.seal($0, device) }
        return try Keybag.read(record, [device])
    }

    /// The ways to unlock: with a secret of all classes, or of a service; with what the kernel has before and after a lock.
    enum Unlock { case secret, service, kernel, lockedKernel }
}

extension KeybagContents {
    /// The keybag after some changes of the keys, each of which has resealed all items.
    func next(_ changes: Int = 1) throws -> KeybagContents {
        var next = self
        for _ in 0..<changes {
            next.generation += 2
            try next.beginEpoch()
            next.closeOlderEpochs(listing: nil) { _ in false }
        }
        return next
    }
}

extension Knowledge {
    /// Like a process that unlocks a keybag that it has read.
    mutating func learn(unlocking keybag: Keybag, _ contents: KeybagContents, _ unlock: OwnersKeybags.Unlock)
    {
        let isComplete = unlock == .secret || unlock == .kernel
        learn(
            unlocking: keybag,
            with: contents.unlockKeys.filter { isComplete || $0.key == .afterFirstUnlock },
            isComplete: isComplete,
            isOwn: unlock == .secret || unlock == .service,
            isProven: unlock == .secret
        )
    }
}
