import LockboxCore

/// The numbers by which an older keybag is known.
struct KeybagNumbers: Equatable, Sendable {
    let generation: UInt64
    let epoch: UInt32

    init(generation: UInt64, epoch: UInt32) { (self.generation, self.epoch) = (generation, epoch) }

    init(_ keybag: Keybag) { self.init(generation: keybag.generation, epoch: keybag.epoch) }

    /// An attacker with the device key can write the highest numbers there are. No store is changed that often, and nothing could
    /// follow them, so they are not remembered.
    var isPlausible: Bool { generation < 1 << 48 && epoch < 1 << 31 }

    /// A restored store that followed higher ones would soon have numbers that are not remembered.
    fileprivate var isReachable: Bool { generation < 1 << 47 && epoch < 1 << 30 }
}

/// A process knows these facts of a store from the keybags that it has read, written and unlocked. None is secret. Neither a lock nor a
/// keybag that the process cannot open takes one away. ``judge(_:with:)`` decides whether a keybag is used.
struct Knowledge: Sendable {
    /// The highest numbers that this process has read or written.
    private(set) var highest: KeybagNumbers?
    /// From the last keybag with slots that was unlocked here.
    private(set) var unlocked: Unlocked?

    struct Unlocked: Sendable {
        /// The owner's public key, or nil if only a slot for services was used.
        fileprivate(set) var owner: [UInt8]?
        /// A hash of the unlock key of ``UnlockLevel/afterFirstUnlock``.
        let unlockKey: [UInt8]
        /// Whether this process has opened a keybag itself, and not only with what the kernel had.
        let isOwn: Bool
        let firstProtected: UInt32
        /// See ``closings(of:)``.
        let closings: [Closing]

        /// In epochs that were closed, only what was listed then opens. About later ones nothing is known.
        func closings(of keybag: Keybag) -> [Closing] {
            // The keybag of a known owner has been checked.
            if owner != nil { return [keybag.closing] }
            let last = closings.last?.epoch ?? 0
            return keybag.closing.epoch > last ? closings + [keybag.closing] : closings
        }
    }

    /// The facts that are known outside of this process.
    struct Outside {
        /// From the user's file of known stores.
        var owner: [UInt8]?
        var numbers: KeybagNumbers?
        /// Whether that file has another store at this place.
        var isAnotherHere = false
        /// The counter's value, if the program uses one.
        var counted: UInt64?
    }

    /// An attacker with the device key can forge a generation that would take a counter's whole life.
    static var maximumIncrements: UInt64 { 128 }

    enum Refusal: Error { case otherStore, rolledBack(String), forged }

    // MARK: Judging

    /// Refuses a keybag that is older than one seen before, or that its owner has not made, as far as the owner is known. The keybag
    /// is not opened yet: nothing is believed before.
    func judge(_ keybag: Keybag, with outside: Outside) throws(Refusal) {
        if outside.isAnotherHere { throw .otherStore }
        if let last = last(before: keybag, with: outside), last.generation > keybag.generation {
            throw .rolledBack(
                "its generation is \(keybag.generation), but generation \(last.generation) was seen before"
            )
        }
        // An attacker with the device key can give former keys a higher number.
        let epoch = seen(outside).map(\.epoch).max() ?? 0
        if epoch > keybag.epoch {
            throw .rolledBack("its epoch is \(keybag.epoch), but epoch \(epoch) was seen before")
        }
        if isForged(keybag, outside) { throw .forged }
    }

    /// A program that knows only a service's slot, or the kernel's record, cannot tell, but removing all slots needs more than that.
    private func isForged(_ keybag: Keybag, _ outside: Outside) -> Bool {
        let owners = [outside.owner, unlocked?.owner].compactMap(\.self)
        if owners.isEmpty { return unlocked != nil && keybag.slots.isEmpty }
        return !owners.allSatisfy(keybag.follows)
    }

    /// Whether neither this process nor another program of the user has seen a later generation.
    func isNewest(_ generation: UInt64, besides remembered: KeybagNumbers? = nil) -> Bool {
        [highest, remembered].compactMap { $0?.generation }.allSatisfy { $0 <= generation }
    }

    /// Whether a keybag that a record of the kernel opens is that of the one that this process has opened last. An attacker with the
    /// device key can forge both, unless the owner is known.
    func accepts(_ unlockKeys: [UnlockLevel: SecretKey]) -> Bool {
        guard let unlocked, unlocked.owner == nil, unlocked.isOwn else { return true }
        return unlockKeys[.afterFirstUnlock]?.hash == unlocked.unlockKey
    }

    // MARK: Learning

    /// Learns the numbers of a keybag that was read or written.
    mutating func learn(_ numbers: KeybagNumbers) {
        guard numbers.isPlausible else { return }
        highest = KeybagNumbers(
            generation: max(numbers.generation, highest?.generation ?? 0),
            epoch: max(numbers.epoch, highest?.epoch ?? 0)
        )
    }

    /// Learns the owner's newest key in the place of one that it follows. Everybody with the device key has that of a store without
    /// slots.
    mutating func follow(_ keybag: Keybag) {
        guard unlocked?.owner != nil else { return }
        unlocked?.owner = keybag.owner.key
        if keybag.slots.isEmpty { unlocked = nil }
    }

    /// Learns from an unlock of a keybag with slots.
    ///
    /// - Parameters:
    ///   - isComplete: Whether level 1 was opened.
    ///   - isOwn: Whether this process has opened it itself, and stays unlocked until it locks.
    ///   - isProven: Whether a secret of this process opened level 1. An unlock in the kernel may be forged.
    mutating func learn(
        unlocking keybag: Keybag,
        with unlockKeys: [UnlockLevel: SecretKey],
        isComplete: Bool,
        isOwn: Bool,
        isProven: Bool
    ) {
        guard !keybag.slots.isEmpty, let key = unlockKeys[.afterFirstUnlock] else { return }
        // A record of the kernel that does not open level 1 proves nothing.
        if !isOwn, !isComplete, unlocked != nil { return }
        // Level 2 alone takes no knowledge away.
        let before = isComplete ? nil : unlocked
        unlocked = Unlocked(
            owner: isProven ? keybag.owner.key : unlocked?.owner,
            unlockKey: key.hash,
            isOwn: isOwn || unlocked?.isOwn ?? false,
            firstProtected: max(keybag.firstProtected, before?.firstProtected ?? 0),
            closings: before?.closings(of: keybag) ?? [keybag.closing]
        )
    }

    /// Learns what this process has written. Another one may have replaced it before it is read again.
    mutating func learn(writing written: KeybagContents, isOwn: Bool) {
        learn(written.numbers)
        // It is not taken for a forgery, also if the kernel's keys have opened the one before.
        if written.slots.isEmpty { unlocked = nil }
        guard !written.slots.isEmpty, let key = written.unlockKeys[.afterFirstUnlock] else { return }
        unlocked = Unlocked(
            owner: written.owner.key,
            unlockKey: key.hash,
            isOwn: isOwn || unlocked?.isOwn ?? false,
            firstProtected: written.firstProtected,
            closings: [written.closing]
        )
    }

    // MARK: An older keybag that is accepted

    /// Returns the numbers that the next keybag has to exceed, if it is to follow one that is older than the last.
    func last(
        before keybag: Keybag,
        with outside: Outside,
        isFollowed: Bool = false
    ) -> KeybagNumbers? {
        let counted = outside.counted.map { counted in
            // The counter knows no epoch. A generation begins at most one.
            let missed = counted - min(counted, keybag.generation)
            let epoch = UInt64(keybag.epoch) + min(missed, UInt64(UInt32.max))
            return KeybagNumbers(generation: counted, epoch: UInt32(clamping: epoch))
        }
        let all =
            seen(outside).filter { !isFollowed || isReachable($0, keybag, outside) }
            + [counted].compactMap(\.self)
        guard let generation = all.map(\.generation).max(), let epoch = all.map(\.epoch).max() else {
            return nil
        }
        return KeybagNumbers(generation: generation, epoch: epoch)
    }

    /// Forgets the last unlock, and numbers that no store reaches: the owner knows why an older keybag is there.
    mutating func accept(_ keybag: Keybag, with outside: Outside) {
        if !seen(outside).allSatisfy({ isReachable($0, keybag, outside) }) { highest = nil }
        unlocked = nil
    }

    /// The numbers that were seen, unless they are forged.
    private func seen(_ outside: Outside) -> [KeybagNumbers] {
        [highest, outside.numbers].compactMap(\.self).filter(\.isPlausible)
    }

    /// Whether a store that follows these numbers can go on, and its counter with it.
    private func isReachable(_ seen: KeybagNumbers, _ keybag: Keybag, _ outside: Outside) -> Bool {
        guard let counted = outside.counted else { return seen.isReachable }
        // Its owner has opened a keybag with slots.
        let proven = keybag.slots.isEmpty ? 0 : keybag.generation
        return seen.isReachable && seen.generation <= max(counted, proven) + Self.maximumIncrements
    }
}

extension KeybagContents {
    var numbers: KeybagNumbers { KeybagNumbers(generation: generation, epoch: epoch) }
}

extension SecretKey {
    fileprivate var hash: [UInt8] { withBytes { Sodium.sha256($0) } }
}
