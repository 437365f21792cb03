/// What the processes of a day are about. Few keys and few kinds of calls make them meet.
struct SimulatedPlan: Sendable {
    private enum Kind: CaseIterable {
        case write, writeClass, reclass, add, remove, expire, update, read, readAll, removeAll, removeExpired,
            refresh
        case move, copy, migrate, batch, writeOld, readOld, rewriteOld, convert
        case export, load, lock, passcode, rotate, verify, addSlot, removeSlot, unlock
    }

    private static let favorites: [[Kind]] = [
        Kind.allCases, [.write, .writeClass, .reclass, .add, .remove, .expire, .update, .removeExpired],
        [.write, .remove, .move, .move, .copy, .migrate], [.write, .move, .removeAll, .batch, .readAll],
        [.write, .writeOld, .convert, .convert, .migrate, .readOld, .rewriteOld, .remove, .lock],
        [.write, .move, .export, .load], [.write, .update, .move, .read, .rotate],
        [.write, .lock, .read, .passcode, .rotate, .verify], [.write, .update, .batch, .readAll],
        [.passcode, .rotate, .addSlot, .removeSlot, .unlock], [.passcode, .rotate, .rotate, .read],
        [.add, .move, .move, .move, .remove, .readAll, .readAll],
        [.write, .migrate, .migrate, .migrate, .remove],
    ]

    /// Tokens that may be used once must not be copied.
    private static let ofSessions: [Kind] = [
        .refresh, .refresh, .refresh, .refresh, .write, .update, .reclass, .remove, .read, .rotate, .lock,
    ]

    private let knowledge: SimulatedKnowledge
    private let keys: [Int]
    /// The calls that most are.
    private let favorites: [Kind]
    private let isOfSessions: Bool
    /// Whether the last slot may be removed that day, or the first one added. Not both: the first one makes another owner of the store,
    /// which a process that knew the one before refuses as long as it lives.
    let removesLastSlot: Bool
    /// A call that may be made again, as programs do that were ended in its middle.
    private let last = SimulatedBox<SimulatedHistory.Operation?>(nil)

    init(_ knowledge: SimulatedKnowledge, _ random: inout SimulatedRandom) {
        self.knowledge = knowledge
        keys = Array(Simulation.keys.indices.shuffled(using: &random).prefix(1 + random.below(4)))
        favorites = Self.favorites[random.below(Self.favorites.count)]
        isOfSessions = random.happens(12_000)
        removesLastSlot = random.happens(50_000)
    }

    func operation(_ number: Int, _ random: inout SimulatedRandom) -> SimulatedHistory.Operation {
        if let last = last.value, random.happens(20_000) { return last }
        let kinds = isOfSessions ? Self.ofSessions : random.happens(80_000) ? favorites : Kind.allCases
        let operation = operation(kinds[random.below(kinds.count)], number, &random)
        switch operation {
        case .move, .copy, .migrate, .removeAll: last.value = operation
        default: break
        }
        return operation
    }

    private func operation(_ kind: Kind, _ number: Int, _ random: inout SimulatedRandom)
        -> SimulatedHistory.Operation
    {
        let (key, other) = (keys[random.below(keys.count)], keys[random.below(keys.count)])
        let (value, replacing, prefix) = ("v\(number)", random.happens(50_000), Simulation.keys[key].0)
        let `class` = ["ak", "ck", "dk"][random.below(3)]
        switch kind {
        case .write: return .write(key, value, class: nil)
        case .writeClass: return .write(key, value, class: `class`)
        case .writeOld: return .writeOld(key, value, class: `class`)
        case .readOld: return .readOld(key)
        case .rewriteOld: return .rewriteOld(key)
        case .convert: return .convert(key, isNamed: replacing)
        case .refresh: return isOfSessions ? .refresh(key, value) : .read(key)
        case .reclass: return .reclass(key, class: `class`)
        case .add: return .add(key, value)
        case .remove: return .remove(key)
        case .expire: return .expire(key, value)
        case .update: return .update(key, value)
        case .move: return .move(key, other, replacing: replacing)
        case .copy: return .copy(key, other, replacing: replacing)
        case .migrate where key == other: return .read(key)
        case .migrate:
            return .migrate(key, other, isNamed: replacing, keeping: random.happens(30_000))
        case .batch: return .batch(writing: key, value, removing: other)
        case .read: return .read(key)
        case .readAll: return .readAll(prefix: prefix)
        case .removeAll: return .removeAll(prefix: prefix)
        case .verify: return .verify
        case .removeExpired: return .removeExpired(prefix: prefix)
        case .export: return .export(number)
        case .load: return knowledge.lastBackup.map { .load($0) } ?? .export(number)
        case .lock: return .lock
        case .passcode:
            let isRemoval = removesLastSlot && random.happens(50_000)
            return .passcode(isRemoval ? nil : "quick \(number)", isFirstAllowed: !removesLastSlot)
        case .addSlot: return .addSlot(knowledge.addSlot(&random), isFirstAllowed: !removesLastSlot)
        case .removeSlot, .unlock:
            guard !knowledge.slots.isEmpty else { return .read(key) }
            let slot = random.below(knowledge.slots.count)
            // A process that has unlocked with a service's slot only cannot tell a store without slots from a forged one.
            if case .key(_, opensAllClasses: false) = knowledge.slots[slot], kind == .unlock, removesLastSlot
            {
                return .read(key)
            }
            return kind == .unlock ? .unlock(slot) : .removeSlot(slot, isLastAllowed: removesLastSlot)
        case .rotate: return .rotate
        }
    }
}
