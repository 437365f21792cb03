import LockboxCore
import LockboxSodium

/// What was seen of the keybag before. An older one is refused: somebody may have put it back.
extension KeyStore {
    /// Returns the error for a keybag that is older than one seen before, or that lost its slots without an unlock, or nil if there
    /// is none.
    func rollback(to opened: OpenedKeybag, after before: OpenedKeybag?) throws -> LockboxError? {
        let keybag = opened.keybag
        if let highest = try highestSeen(opened, before), highest.generation > keybag.generation {
            return rolledBack(
                "its generation is \(keybag.generation), but generation \(highest.generation) was seen before"
            )
        }
        // Who has the device key can give retired keys a higher number.
        let epoch = remembered(opened, before).map(\.epoch).max() ?? 0
        if epoch > keybag.epoch {
            return rolledBack(
                "its epoch is \(keybag.epoch), but epoch \(epoch) was seen before"
            )
        }
        return isForged(opened, after: before) ? .authenticationFailed(record: keybagLocation) : nil
    }

    /// Whether a store that this process has unlocked seems to have lost its slots, but not by somebody who could unlock it.
    private func isForged(_ opened: OpenedKeybag, after before: OpenedKeybag?) -> Bool {
        guard let before, !before.keybag.slots.isEmpty, opened.keybag.slots.isEmpty else { return false }
        let user = userRecords.withLock { records in
            records?.own === before.keyring
                ? records?.outcomes.compactMap { $0.opened?.lineage.first }.first : nil
        }
        guard let key = before.lineage.first ?? user else { return false }
        return !opened.lineage.contains { $0.isEqual(to: key) }
    }

    /// The highest generation and epoch that this process, another one of the user, or the counter has seen.
    func highestSeen(_ opened: OpenedKeybag, _ before: OpenedKeybag?) throws -> SeenGeneration.Seen? {
        let counted = try counted().map { counted in
            // The counter knows no epoch. A generation begins at most one.
            let missed = counted - min(counted, opened.keybag.generation)
            let epoch = UInt64(opened.keybag.epoch) + min(missed, UInt64(UInt32.max))
            return SeenGeneration.Seen(generation: counted, epoch: UInt32(clamping: epoch))
        }
        let all = remembered(opened, before) + [counted].compactMap { $0 }
        guard let generation = all.map(\.generation).max(), let epoch = all.map(\.epoch).max() else {
            return nil
        }
        return SeenGeneration.Seen(generation: generation, epoch: epoch)
    }

    /// What this process and another one of the user have seen, unless somebody has forged it.
    private func remembered(_ opened: OpenedKeybag, _ before: OpenedKeybag?) -> [SeenGeneration.Seen] {
        [before.map { SeenGeneration.Seen($0.keybag) }, seen.read(opened.keyring)]
            .compactMap { $0 }.filter(\.isPlausible)
    }

    /// The first keybag of a store is not remembered, because there is no older one. One that no secret unlocked for all classes
    /// is not remembered either, unless this process has written it: whoever has the device key, or a slot for services, can forge
    /// its generation.
    ///
    /// - Parameter written: What this process has just written. Somebody may have replaced it before it was read again.
    func remember(_ opened: OpenedKeybag, written: KeybagContents? = nil) {
        let new = SeenGeneration.Seen(opened.keybag)
        let isOwn = written.map { .init(generation: $0.generation, epoch: $0.epoch) == new } ?? false
        if isOwn { count(new.generation) }
        let isUnlocked = !opened.keybag.slots.isEmpty && opened.unlockKeys[.unlocked] != nil
        guard new.generation > 1, new.isPlausible, isOwn || isUnlocked else { return }
        seen.write(new, opened.keyring)
    }

    /// Nil if this program uses no counter.
    private func counted() throws -> UInt64? {
        guard let counter else { return nil }
        if let value = try counter.read() { return value }
        throw LockboxError.missing(record: "the counter of \(keybagLocation)")
    }

    /// Called under the keybag's lock, as the counter must never be ahead of the keybag. An increment that fails is made up
    /// for after the next change.
    private func count(_ generation: UInt64) {
        guard let counter, var value = (try? counter.read()) ?? nil else { return }
        // Whoever has the device key can forge a generation that would take a counter's whole life.
        for _ in 0..<Self.maximumIncrements where value < generation {
            guard let next = try? counter.increment() else { return }
            value = next
        }
    }

    private static var maximumIncrements: Int { 128 }

    /// A store that is not there is not a new one if there was one before.
    func checkNothingWasCounted() throws {
        guard let counted = try counted(), counted > 1 else { return }
        throw rolledBack("it does not exist, but generation \(counted) was seen before")
    }

    private func rolledBack(_ reason: String) -> LockboxError {
        .rolledBack(record: keybagLocation, reason: reason)
    }
}
