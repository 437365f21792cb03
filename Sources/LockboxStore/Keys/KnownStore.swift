import LockboxCore
import LockboxPlatform

/// This program's knowledge of the store: in this process, in the user's file of known stores, and from a counter.
final class KnownStore: Sendable {
    /// If nil, this program has none.
    let memory: StoreMemory?
    let counter: StoreCounter
    let process = Protected(Knowledge())
    private let storage: any RecordStorage

    init(_ storage: any RecordStorage, memory: StoreMemory?, counter: (any GenerationCounter)?) {
        (self.storage, self.memory) = (storage, memory)
        self.counter = StoreCounter(counter, of: storage.location(of: .keybag))
    }

    private var location: String { storage.location(of: .keybag) }
    private var subject: LockboxError.Subject { .keybag(location) }

    // MARK: Judging

    /// Whether neither this process nor, since the keyring was checked, another program of the user has seen a later keybag.
    func isNewest(_ keyring: Keyring) -> Bool {
        let state = memory?.state
        let isChecked = state == nil || state == keyring.checkedBy.withLock { $0 }
        let remembered = isChecked ? nil : memory?.entry(of: keyring.storeID)?.numbers
        guard process.withLock({ $0.isNewest(keyring.generation, besides: remembered) }) else { return false }
        keyring.checkedBy.withLock { $0 = state }
        return true
    }

    /// The store that was unlocked in this folder, if this user's programs remember it.
    var storeHere: StoreID? { memory.flatMap { memory in memory.entries.first(where: memory.isHere)?.store } }

    /// Returns the facts that are known of a store outside of this process.
    private func outside(_ store: StoreID) throws -> Knowledge.Outside {
        let entries = memory?.entries ?? []
        let known = entries.first { $0.store == store }
        return Knowledge.Outside(
            owner: known?.owner,
            numbers: known?.numbers,
            isAnotherHere: entries.contains { $0.store != store && memory?.isHere($0) ?? false },
            counted: try counter.value
        )
    }

    /// Returns why a keybag is not used. See ``Knowledge/judge(_:with:)``.
    func refusal(of keybag: Keybag) throws -> LockboxError? {
        let outside = try outside(keybag.storeID)
        do throws(Knowledge.Refusal) {
            try process.withLock { $0 }.judge(keybag, with: outside)
            return nil
        } catch {
            switch error {
            case .otherStore: return .storeReplaced(location: location)
            case .rolledBack(let reason): return .rolledBack(record: subject, reason: reason)
            case .forged: return .authenticationFailed(record: subject)
            }
        }
    }

    /// Learns from a keybag that was not refused.
    func learn(from opened: OpenedKeybag) {
        let (keybag, isComplete) = (opened.keybag, opened.isComplete)
        if memory?.entry(of: keybag.storeID)?.owner != nil { remember(keybag, isUnlocked: false) }
        process.withLock {
            $0.follow(keybag)
            $0.learn(
                unlocking: keybag,
                with: opened.unlockKeys,
                isComplete: isComplete,
                isOwn: true,
                isProven: isComplete
            )
        }
    }

    /// Remembers a keybag for all programs of the user: one that a secret has unlocked for all classes, or that follows one. Everybody
    /// who has the device key signs one without slots.
    func remember(_ keybag: Keybag, isUnlocked: Bool = true) {
        let numbers = KeybagNumbers(keybag)
        if !numbers.isPlausible || isUnlocked && keybag.slots.isEmpty { return }
        guard let memory else { return }
        // Otherwise a power cut could leave the keybag before it, which would be called an old copy.
        if memory.entry(of: keybag.storeID)?.numbers != numbers {
            do { try storage.asFiles?.synchronize(nil) } catch { return }
        }
        let owner = keybag.slots.isEmpty ? nil : keybag.owner.key
        memory.remember(keybag.storeID, owner, numbers: numbers, isUnlocked: isUnlocked)
    }

    /// Learns a keybag that this process has written, and lets the user's programs and the counter know.
    ///
    /// - Parameter isAccepted: Whether it follows an older one that its owner has accepted.
    func learn(writing written: KeybagContents, isOwn: Bool, isAccepted: Bool) {
        if written.numbers.isPlausible {
            memory?.remember(
                written.storeID,
                written.slots.isEmpty ? nil : written.owner.key,
                numbers: written.numbers,
                isAccepted: isAccepted
            )
        }
        counter.follow(written.generation)
        process.withLock { $0.learn(writing: written, isOwn: isOwn) }
    }

    /// Returns why a store that is not there is not a new one, or nil if nothing was there.
    func signOfAnother() throws -> LockboxError? {
        func refusal(_ reason: String) -> LockboxError {
            .rolledBack(record: subject, reason: "it does not exist, but \(reason)")
        }
        if let memory, memory.entries.contains(where: memory.isHere) {
            return refusal("a store was unlocked here before")
        }
        guard let counted = try counter.value, counted > 1 else { return nil }
        return refusal("generation \(counted) was seen before")
    }

    // MARK: An older keybag that is accepted

    /// Returns the numbers that the next keybag has to exceed.
    func last(before keybag: Keybag) throws -> KeybagNumbers? {
        let outside = try outside(keybag.storeID)
        return process.withLock { $0 }.last(before: keybag, with: outside, isFollowed: true)
    }

    /// Its owner knows why it is another one.
    func accept(_ keybag: Keybag) throws {
        let outside = try outside(keybag.storeID)
        process.withLock { $0.accept(keybag, with: outside) }
    }
}
