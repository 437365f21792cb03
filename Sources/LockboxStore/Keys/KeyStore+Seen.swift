import LockboxCore
import LockboxPlatform

/// The memory of keybags that were seen before. An older one is refused: somebody may have put it back.
extension KeyStore {
    /// Returns the error for a keybag that is older than one seen before, or that lost its slots without an unlock. Nil if it is
    /// neither.
    func rollback(to opened: OpenedKeybag) throws -> LockboxError? {
        let keybag = opened.keybag
        if let highest = try highestSeen(opened), highest.generation > keybag.generation {
            return rolledBack(
                "its generation is \(keybag.generation), but generation \(highest.generation) was seen before"
            )
        }
        // Whoever has the device key can give retired keys a higher number.
        let epoch = remembered(opened).map(\.epoch).max() ?? 0
        if epoch > keybag.epoch {
            return rolledBack(
                "its epoch is \(keybag.epoch), but epoch \(epoch) was seen before"
            )
        }
        return isForged(opened) ? .authenticationFailed(record: keybagLocation) : nil
    }

    /// Whether this process has neither read nor written a later keybag.
    func isNewest(_ opened: OpenedKeybag) -> Bool {
        highest.withLock { $0.map { $0.generation <= opened.keybag.generation } ?? true }
    }

    /// Whether a store that this process has unlocked seems to have lost its slots, but not by somebody who could unlock it.
    private func isForged(_ opened: OpenedKeybag) -> Bool {
        guard opened.keybag.slots.isEmpty, let trusted = trusted.withLock({ $0 }) else { return false }
        return !opened.lineage.contains { $0.hash == trusted.lineage }
    }

    /// Whether a keybag that a record of the kernel opens follows the one that this process has opened last. Whoever has the device
    /// key can forge both. A record that does not open the lineage proves nothing to a process that has unlocked the store itself.
    func isTrusted(_ opened: OpenedKeybag) -> Bool {
        guard let trusted = trusted.withLock({ $0 }) else { return true }
        if let lineage = trusted.lineage, !opened.lineage.isEmpty {
            return opened.lineage.contains { $0.hash == lineage }
        }
        return !trusted.isOwn || opened.unlockKeys[.afterFirstUnlock]?.hash == trusted.unlockKey
    }

    /// Remembers what a keybag says, if it has slots and an unlock has opened it.
    ///
    /// - Parameter isOwn: Whether this process has opened it itself, and stays unlocked until it locks.
    func trust(
        _ keybag: Keybag,
        _ unlockKeys: [UnlockLevel: SecretKey],
        lineage: [SecretKey],
        isOwn: Bool
    ) {
        guard !keybag.slots.isEmpty, let key = unlockKeys[.afterFirstUnlock] else { return }
        trusted.withLock { trusted in
            // A record of the kernel that does not open the lineage proves nothing.
            if !isOwn, lineage.isEmpty, trusted != nil { return }
            // Level 2 alone takes no knowledge away.
            let before = lineage.isEmpty ? trusted : nil
            trusted = TrustedKeybag(
                // A slot for services opens none. Then only what this process has opened itself is known to be true.
                lineage: lineage.first?.hash ?? trusted.flatMap { $0.isOwn ? $0.lineage : nil },
                unlockKey: key.hash,
                isOwn: isOwn || trusted?.isOwn ?? false,
                retired: max(keybag.retired, before?.retired ?? 0),
                firstProtected: max(keybag.firstProtected, before?.firstProtected ?? 0),
                leftovers: before?.leftovers(of: keybag) ?? keybag.leftovers
            )
        }
    }

    /// Remembers what this process has written, in the counter too. Somebody may have replaced it before it is read again.
    func trust(_ written: KeybagContents, isOwn: Bool, _ keyring: Keyring) {
        let new = SeenGeneration.Seen(generation: written.generation, epoch: written.epoch)
        note(new)
        if new.isPlausible { seen.write(new, keyring) }
        count(written.generation)
        guard !written.slots.isEmpty, let key = written.unlockKeys[.afterFirstUnlock] else { return }
        trusted.withLock { trusted in
            trusted = TrustedKeybag(
                lineage: written.lineage[0].hash,
                unlockKey: key.hash,
                isOwn: isOwn || trusted?.isOwn ?? false,
                retired: written.retired,
                firstProtected: written.firstProtected,
                leftovers: written.leftovers
            )
        }
    }

    /// The highest generation and epoch that this process, another one of the user, or the counter has seen.
    ///
    /// - Parameter isFollowed: Whether the next keybag is to have higher ones.
    func highestSeen(_ opened: OpenedKeybag, isFollowed: Bool = false) throws -> SeenGeneration.Seen? {
        let counted = try counted().map { counted in
            // The counter knows no epoch. A generation begins at most one.
            let missed = counted - min(counted, opened.keybag.generation)
            let epoch = UInt64(opened.keybag.epoch) + min(missed, UInt64(UInt32.max))
            return SeenGeneration.Seen(generation: counted, epoch: UInt32(clamping: epoch))
        }
        let seen = try remembered(opened).filter { try !isFollowed || isReachable($0, opened) }
        let all = seen + [counted].compactMap { $0 }
        guard let generation = all.map(\.generation).max(), let epoch = all.map(\.epoch).max() else {
            return nil
        }
        return SeenGeneration.Seen(generation: generation, epoch: epoch)
    }

    /// The numbers that this process and another one of the user have seen, unless somebody has forged them.
    private func remembered(_ opened: OpenedKeybag) -> [SeenGeneration.Seen] {
        [highest.withLock { $0 }, seen.read(opened.keyring)].compactMap { $0 }.filter(\.isPlausible)
    }

    /// Remembers in this process what it has read or written.
    func note(_ seen: SeenGeneration.Seen) {
        guard seen.isPlausible else { return }
        highest.withLock { highest in
            highest = .init(
                generation: max(seen.generation, highest?.generation ?? 0),
                epoch: max(seen.epoch, highest?.epoch ?? 0)
            )
        }
    }

    /// The first keybag of a store is not remembered, because there is no older one. One that no secret unlocked for all classes
    /// is not remembered either: whoever has the device key, or a slot for services, can forge its generation.
    func remember(_ opened: OpenedKeybag) {
        let new = SeenGeneration.Seen(opened.keybag)
        let isUnlocked = !opened.keybag.slots.isEmpty && opened.unlockKeys[.unlocked] != nil
        guard new.generation > 1, new.isPlausible, isUnlocked else { return }
        seen.write(new, opened.keyring)
    }

    /// Forgets numbers that no store reaches, before its owner accepts it.
    func forgetForgedNumbers(_ opened: OpenedKeybag) throws {
        if try remembered(opened).allSatisfy({ try isReachable($0, opened) }) { return }
        highest.withLock { $0 = nil }
        seen.write(nil, opened.keyring)
    }

    /// Whether a store that follows these numbers can go on, and its counter with it.
    private func isReachable(_ seen: SeenGeneration.Seen, _ opened: OpenedKeybag) throws -> Bool {
        guard let counted = try counted() else { return seen.isReachable }
        // Its owner has opened a keybag with slots.
        let proven = opened.keybag.slots.isEmpty ? 0 : opened.keybag.generation
        return seen.isReachable && seen.generation <= max(counted, proven) + Self.maximumIncrements
    }

    /// Whoever has the device key can forge the generation of a store without slots. A counter that could not follow it would notice
    /// nothing any more.
    func checkCounterFollows(_ keybag: Keybag) throws {
        guard let counted = try counted(), keybag.generation + 2 > counted + Self.maximumIncrements else {
            return
        }
        throw rolledBack(
            "its generation is \(keybag.generation), which the counter at \(counted) cannot follow"
        )
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

    private static var maximumIncrements: UInt64 { 128 }

    /// A store that is not there is not a new one if there was one before.
    func checkNothingWasCounted() throws {
        guard let counted = try counted(), counted > 1 else { return }
        throw rolledBack("it does not exist, but generation \(counted) was seen before")
    }

    private func rolledBack(_ reason: String) -> LockboxError {
        .rolledBack(record: keybagLocation, reason: reason)
    }
}

extension SecretKey {
    fileprivate var hash: [UInt8] { withBytes { Sodium.sha256($0) } }
}

/// The highest generation and epoch that the user's processes have seen of each keybag, in one key of the kernel's
/// keyring. An older keybag is then known to be one that somebody has put back.
///
/// An entry is authenticated with the key of the file names, which never changes: so a program that finds an old device
/// key with the old keybag can still read what was written under the new ones. The entry belongs to the store, by its ID,
/// wherever it is: a path has many spellings, and a copy can be put in the place of any.
struct SeenGeneration: Sendable {
    let kernel: KernelKeyring
    /// The name of the kernel's key.
    var name = "lockbox:generations"

    struct Seen: Equatable {
        let generation: UInt64
        let epoch: UInt32

        /// Whoever has the device key can write the highest numbers there are. Nobody changes a store that often, and nothing
        /// could follow them, so they are not remembered.
        var isPlausible: Bool { generation < 1 << 48 && epoch < 1 << 31 }

        /// A restored store that followed higher ones would soon have numbers that are not remembered.
        var isReachable: Bool { generation < 1 << 47 && epoch < 1 << 30 }
    }

    /// The kernel gives each user little memory, so the stores that were changed longest ago are forgotten.
    static let maximumEntries = 64

    private static let nameLength = 16
    private static let macLength = 16
    private static let entryLength = nameLength + 16 + macLength

    /// The kernel's record, of all stores.
    var serial: KernelKeyring.Serial? { kernel.serial(of: name) }

    /// Returns nil if nothing was seen, or if the kernel has no authentic record of it.
    func read(_ keyring: Keyring) -> Seen? {
        let name = Self.entryName(keyring)
        return entries(of: name).own.compactMap { Self.decode($0, keyring) }.filter(\.isPlausible)
            .max { $0.generation < $1.generation }
    }

    /// Remembers a keybag, unless a later one of its store is remembered. Nil forgets the store. Does nothing if the kernel refuses.
    func write(_ seen: Seen?, _ keyring: Keyring) {
        let name = Self.entryName(keyring)
        func isKnown() -> Bool {
            guard let seen else { return false }
            return read(keyring).map { $0.generation >= seen.generation } ?? false
        }
        guard !isKnown() else { return }
        kernel.withLock {
            guard !isKnown() else { return }
            var all = entries(of: name).others.suffix((Self.maximumEntries - 1) * Self.entryLength)
            if let seen { all += Self.encode(seen, name, keyring) }
            // A key has a byte at least.
            if all.isEmpty {
                _ = try? kernel.remove(self.name)
            } else {
                _ = kernel.add(self.name, Array(all), seconds: nil)
            }
        }
    }

    /// Returns the entries of a store, and those of all others in one array.
    private func entries(of name: [UInt8]) -> (own: [[UInt8]], others: [UInt8]) {
        guard let key = serial else { return ([], []) }
        return kernel.read(key, maximum: Self.maximumEntries * Self.entryLength) { bytes in
            var (own, others) = ([[UInt8]](), [UInt8]())
            var reader = ByteReader(UnsafeRawBufferPointer(bytes))
            while let entry = reader.readBytes(Self.entryLength), let start = entry.baseAddress {
                let isOwn = memcmp(start, name, Self.nameLength) == 0
                if isOwn { own.append(Array(entry)) } else { others += entry }
            }
            return (own, others)
        } ?? ([], [])
    }

    // MARK: An entry: name, generation, epoch, four zeros, MAC

    private static func entryName(_ keyring: Keyring) -> [UInt8] {
        Array(keyring.seenMAC(keyring.storeID.bytes).prefix(nameLength))
    }

    private static func encode(_ seen: Seen, _ name: [UInt8], _ keyring: Keyring) -> [UInt8] {
        let bytes =
            name + withUnsafeBytes(of: seen.generation.littleEndian, Array.init)
            + withUnsafeBytes(of: seen.epoch.littleEndian, Array.init) + [0, 0, 0, 0]
        return bytes + keyring.seenMAC(bytes).prefix(macLength)
    }

    private static func decode(_ entry: [UInt8], _ keyring: Keyring) -> Seen? {
        entry.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            guard reader.readBytes(nameLength) != nil, let generation = reader.read(UInt64.self),
                let epoch = reader.read(UInt32.self), reader.skipZeros(4)
            else { return nil }
            let seen = Seen(generation: generation, epoch: epoch)
            let mac = encode(seen, Array(entry.prefix(nameLength)), keyring)
            return mac.withUnsafeBytes { Sodium.isEqual($0, bytes) } ? seen : nil
        }
    }
}

extension SeenGeneration.Seen {
    init(_ keybag: Keybag) { self.init(generation: keybag.generation, epoch: keybag.epoch) }
}

/// A monotonic counter, such as one in a TPM. With it, a store detects that an older copy of itself was restored, or that it
/// was removed, even after a restart of the machine.
///
/// Each store needs a counter of its own. Lockbox increments it up to the keybag's generation, which a change of a slot or a
/// rotation raises by up to three. Writes of items do not. It is read each time the keybag is read. If a process is killed
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
