import LockboxCore
import LockboxPlatform

/// The memory of keybags that were seen before. An older one is refused: an attacker may have put it back.
extension KeyStore {
    /// Returns the error for a keybag that is older than one seen before, or that its owner has not made, as far as this process or
    /// the user's memory knows the owner. Returns nil if it is neither. The keybag is not opened yet: nothing is believed before.
    func refusal(of keybag: Keybag) throws -> LockboxError? {
        if let memory, memory.entries.contains(where: { $0.store != keybag.storeID && memory.isHere($0) }) {
            return .storeReplaced(location: keybagLocation)
        }
        if let highest = try highestSeen(keybag), highest.generation > keybag.generation {
            return rolledBack(
                "its generation is \(keybag.generation), but generation \(highest.generation) was seen before"
            )
        }
        // An attacker with the device key can give former keys a higher number.
        let epoch = remembered(keybag).map(\.epoch).max() ?? 0
        if epoch > keybag.epoch {
            return rolledBack(
                "its epoch is \(keybag.epoch), but epoch \(epoch) was seen before"
            )
        }
        return isForged(keybag) ? .authenticationFailed(record: keybagSubject) : nil
    }

    /// Whether a keybag does not come from the owner whom this process or the user's memory knows. A program that knows only a service's
    /// slot, or the kernel's record, cannot tell, but removing all slots needs more than that.
    private func isForged(_ keybag: Keybag) -> Bool {
        let trusted = trusted.withLock { $0 }
        let owners = [memory?.entry(of: keybag.storeID)?.owner, trusted?.owner].compactMap(\.self)
        if owners.isEmpty { return trusted != nil && keybag.slots.isEmpty }
        return !owners.allSatisfy(keybag.follows)
    }

    /// Whether this process has neither read nor written a later keybag.
    func isNewest(_ opened: OpenedKeybag) -> Bool {
        highest.withLock { $0.map { $0.generation <= opened.keybag.generation } ?? true }
    }

    /// Whether a keybag that a record of the kernel opens is that of the one that this process has opened last. An attacker with the
    /// device key can forge both, unless the owner is known.
    func isTrusted(_ opened: OpenedKeybag) -> Bool {
        guard let trusted = trusted.withLock({ $0 }), trusted.owner == nil, trusted.isOwn else { return true }
        return opened.unlockKeys[.afterFirstUnlock]?.hash == trusted.unlockKey
    }

    /// Remembers what a keybag says that was not refused.
    func learn(from opened: OpenedKeybag) {
        follow(opened.keybag)
        let isComplete = opened.isComplete
        trust(opened.keybag, opened.unlockKeys, isComplete: isComplete, isOwn: true, isProven: isComplete)
    }

    /// Remembers the owner's newest key in the place of one that it follows. Everybody with the device key has that of a store without
    /// slots.
    private func follow(_ keybag: Keybag) {
        if memory?.entry(of: keybag.storeID)?.owner != nil { remember(keybag, isUnlocked: false) }
        trusted.withLock { trusted in
            guard trusted?.owner != nil else { return }
            trusted?.owner = keybag.owner.key
            if keybag.slots.isEmpty { trusted = nil }
        }
    }

    /// Remembers what a keybag says, if it has slots and an unlock has opened it.
    ///
    /// - Parameters:
    ///   - isComplete: Whether level 1 was opened.
    ///   - isOwn: Whether this process has opened it itself, and stays unlocked until it locks.
    ///   - isProven: Whether a secret of this process opened level 1. An unlock in the kernel may be forged.
    func trust(
        _ keybag: Keybag,
        _ unlockKeys: [UnlockLevel: SecretKey],
        isComplete: Bool,
        isOwn: Bool,
        isProven: Bool
    ) {
        guard !keybag.slots.isEmpty, let key = unlockKeys[.afterFirstUnlock] else { return }
        trusted.withLock { trusted in
            // A record of the kernel that does not open level 1 proves nothing.
            if !isOwn, !isComplete, trusted != nil { return }
            // Level 2 alone takes no knowledge away.
            let before = isComplete ? nil : trusted
            trusted = TrustedKeybag(
                owner: isProven ? keybag.owner.key : trusted?.owner,
                unlockKey: key.hash,
                isOwn: isOwn || trusted?.isOwn ?? false,
                firstProtected: max(keybag.firstProtected, before?.firstProtected ?? 0),
                closings: before?.closings(of: keybag) ?? [keybag.closing]
            )
        }
    }

    /// Remembers what this process has written, in the counter too. Another process may have replaced it before it is read again.
    func trust(_ written: KeybagContents, isOwn: Bool) {
        let new = StoreMemory.Numbers(generation: written.generation, epoch: written.epoch)
        note(new)
        if new.isPlausible {
            memory?.remember(written.storeID, written.slots.isEmpty ? nil : written.owner.key, new)
        }
        count(written.generation)
        guard !written.slots.isEmpty, let key = written.unlockKeys[.afterFirstUnlock] else { return }
        trusted.withLock { trusted in
            trusted = TrustedKeybag(
                owner: written.owner.key,
                unlockKey: key.hash,
                isOwn: isOwn || trusted?.isOwn ?? false,
                firstProtected: written.firstProtected,
                closings: [written.closing]
            )
        }
    }

    /// The highest generation and epoch that this process, another one of the user, or the counter has seen.
    ///
    /// - Parameter isFollowed: Whether the next keybag is to have higher ones.
    func highestSeen(_ keybag: Keybag, isFollowed: Bool = false) throws -> StoreMemory.Numbers? {
        let counted = try counted().map { counted in
            // The counter knows no epoch. A generation begins at most one.
            let missed = counted - min(counted, keybag.generation)
            let epoch = UInt64(keybag.epoch) + min(missed, UInt64(UInt32.max))
            return StoreMemory.Numbers(generation: counted, epoch: UInt32(clamping: epoch))
        }
        let seen = try remembered(keybag).filter { try !isFollowed || isReachable($0, keybag) }
        let all = seen + [counted].compactMap { $0 }
        guard let generation = all.map(\.generation).max(), let epoch = all.map(\.epoch).max() else {
            return nil
        }
        return StoreMemory.Numbers(generation: generation, epoch: epoch)
    }

    /// The numbers that this process and another one of the user have seen, unless they are forged.
    private func remembered(_ keybag: Keybag) -> [StoreMemory.Numbers] {
        [highest.withLock { $0 }, memory?.entry(of: keybag.storeID)?.numbers].compactMap { $0 }.filter(
            \.isPlausible
        )
    }

    /// Remembers in this process what it has read or written.
    func note(_ seen: StoreMemory.Numbers) {
        guard seen.isPlausible else { return }
        highest.withLock { highest in
            highest = .init(
                generation: max(seen.generation, highest?.generation ?? 0),
                epoch: max(seen.epoch, highest?.epoch ?? 0)
            )
        }
    }

    /// Remembers a keybag for all programs of the user: one that a secret has unlocked for all classes, or that follows one. Everybody
    /// who has the device key signs one without slots.
    func remember(_ keybag: Keybag, isUnlocked: Bool = true) {
        let numbers = StoreMemory.Numbers(keybag)
        if !numbers.isPlausible || isUnlocked && keybag.slots.isEmpty { return }
        guard let memory else { return }
        // Otherwise a power cut could leave the keybag before it, which would be called an old copy.
        if memory.entry(of: keybag.storeID)?.numbers != numbers, let files = storage as? FileStorage {
            do { try files.synchronizeFolder(.root) } catch { return }
        }
        let owner = keybag.slots.isEmpty ? nil : keybag.owner.key
        memory.remember(keybag.storeID, owner, numbers, isUnlocked: isUnlocked)
    }

    /// Forgets numbers that no store reaches, before its owner accepts it.
    func forgetForgedNumbers(_ keybag: Keybag) throws {
        if try remembered(keybag).allSatisfy({ try isReachable($0, keybag) }) { return }
        highest.withLock { $0 = nil }
    }

    /// Whether a store that follows these numbers can go on, and its counter with it.
    private func isReachable(_ seen: StoreMemory.Numbers, _ keybag: Keybag) throws -> Bool {
        guard let counted = try counted() else { return seen.isReachable }
        // Its owner has opened a keybag with slots.
        let proven = keybag.slots.isEmpty ? 0 : keybag.generation
        return seen.isReachable && seen.generation <= max(counted, proven) + Self.maximumIncrements
    }

    /// An attacker with the device key can forge the generation of a store without slots. A counter that could not follow it would
    /// notice nothing any more.
    func checkCounterFollows(_ keybag: Keybag) throws {
        guard let counted = try counted(), keybag.generation + 2 > counted + Self.maximumIncrements else {
            return
        }
        throw rolledBack(
            "its generation is \(keybag.generation), which the counter at \(counted) cannot follow"
        )
    }

    /// Returns nil if this program uses no counter.
    private func counted() throws -> UInt64? {
        guard let counter else { return nil }
        if let value = try counter.read() { return value }
        throw LockboxError.missing(record: "the counter of \(keybagLocation)")
    }

    /// Called under the keybag's lock, as the counter must never be ahead of the keybag. An increment that fails is made up
    /// for after the next change.
    private func count(_ generation: UInt64) {
        guard let counter, var value = (try? counter.read()) ?? nil else { return }
        // An attacker with the device key can forge a generation that would take a counter's whole life.
        for _ in 0..<Self.maximumIncrements where value < generation {
            guard let next = try? counter.increment() else { return }
            value = next
        }
    }

    private static var maximumIncrements: UInt64 { 128 }

    /// A store that is not there is not a new one if there was one before.
    func checkNothingWasThere() throws {
        if let memory, memory.entries.contains(where: memory.isHere) {
            throw rolledBack("it does not exist, but a store was unlocked here before")
        }
        guard let counted = try counted(), counted > 1 else { return }
        throw rolledBack("it does not exist, but generation \(counted) was seen before")
    }

    private func rolledBack(_ reason: String) -> LockboxError {
        .rolledBack(record: keybagSubject, reason: reason)
    }
}

extension SecretKey {
    fileprivate var hash: [UInt8] { withBytes { Sodium.sha256($0) } }
}

/// A monotonic counter, such as one in a TPM. With it, a store detects that an older copy of itself was restored, or that it
/// was removed, even after a restart of the machine.
///
/// Each store needs a counter of its own. Lockbox increments it up to the keybag's generation, which a change of a slot or a
/// rotation raises by up to four. Writes of items do not. It is read each time the keybag is read. If a process is killed
/// after the change and before the increment, a copy from just before the change is not detected until the next one.
///
/// To use a counter that is already higher than the store's generation, create a backend with it and call `acceptRestored`
/// once, which raises the generation above the counter.
public protocol GenerationCounter: Sendable {
    /// Returns the value, or `nil` if there is no counter, for which Lockbox throws ``LockboxError/missing(record:)``.
    ///
    /// - Throws: ``LockboxError``, which is passed on.
    func read() throws -> UInt64?

    /// Increments the counter by one, durably.
    ///
    /// - Returns: The new value.
    /// - Throws: ``LockboxError`` if it could not be incremented. The change to the store takes effect anyway. The next change
    ///   catches up.
    func increment() throws -> UInt64
}
