/// The calls of a day, and whether they can have happened one after the other.
///
/// Each call takes effect at one instant between its beginning and its end; a move at two, between which no other writer changes
/// its keys; a list, a batch or an import at one for each key, but an empty list at one for all. A removal of all removes some keys
/// one by one, and then all others at one instant, so that no item moves out of its way. A migration reads an item, stores it if its
/// new place is free, and removes the old one if it has not changed since, at three instants. A call without an answer, whose process
/// died or met a failure, may take effect at any later time, or never.
struct SimulatedHistory {
    /// What a call does to the registers: the items by their numbers, then the passcode, and then each slot that was ever asked for. An
    /// item is written as `value@class`, and one of Lockbox 2 as `value/2@class`.
    enum Operation: Hashable {
        case read(Int)
        case write(Int, String, class: String?)
        case add(Int, String)
        case remove(Int)
        /// Stores an item that has expired, and so reads as absent.
        case expire(Int, String)
        case update(Int, String)
        case move(Int, Int, replacing: Bool)
        case copy(Int, Int, replacing: Bool)
        /// - `keeping`: Whether the old item stays.
        case migrate(Int, Int, isNamed: Bool, keeping: Bool)
        /// Stores an item as Lockbox 2 did, and reads one.
        case writeOld(Int, String, class: String)
        case readOld(Int)
        /// Stores what a method of Lockbox 2 has returned, which removes the item if that is nil.
        case rewriteOld(Int)
        /// Converts an item of Lockbox 2 where it is.
        case convert(Int, isNamed: Bool)
        /// Gives an item another class.
        case reclass(Int, class: String)
        /// Refreshes a token that may be used once.
        case refresh(Int, String)
        case batch(writing: Int, String, removing: Int)
        case readAll(prefix: Int)
        case removeAll(prefix: Int)
        case removeExpired(prefix: Int)
        case verify
        /// Changes or removes it, or sets it if that is allowed.
        case passcode(String?, isFirstAllowed: Bool)
        case addSlot(Int, isFirstAllowed: Bool)
        case removeSlot(Int, isLastAllowed: Bool)
        /// Locks the store, and unlocks it with what a slot was made with.
        case unlock(Int)
        case export(Int)
        case load(Int)
        case lock
        case rotate

        var changesKeys: Bool {
            switch self {
            case .passcode, .addSlot, .removeSlot, .rotate: true
            default: false
            }
        }

        /// Whether its answer does not say why it failed. If no call of the World did, it had no effect.
        var isOfLockbox2: Bool {
            switch self {
            case .writeOld, .rewriteOld: true
            default: false
            }
        }

        /// If such a call says that nothing was changed, it had no effect. Others may have changed something before.
        var isOfOneItem: Bool {
            switch self {
            case .write, .add, .remove, .expire, .update, .move, .copy, .reclass: true
            default: false
            }
        }
    }

    enum Answer: Equatable {
        /// What was read, or what an update found.
        case value(String?)
        case values([Int: String])
        case done, absent, duplicate
        /// There was nothing left to do.
        case already
        /// The call changed nothing.
        case refused
        /// None: the process died, or the call failed.
        case none
    }

    struct Call {
        let caller: String
        let number: Int
        let operation: Operation
        /// What an import may store.
        let loaded: [Int: String]
        let begin: Int
        var end: Int?
        var answer = Answer.none
        /// What it has read before it changed anything.
        var note: String?
        /// The error of a call without an answer.
        var failure: String?

        var description: String {
            "\(begin)-\(end.map(String.init) ?? "") \(caller) #\(number) \(operation) \(failure ?? "\(answer)")"
        }
    }

    typealias State = [String?]

    static let defaultClass = "ak"

    var calls: [Call] = []

    // MARK: What calls do

    static func events(of call: Call, prefixes: [Int]) -> [Event] {
        if call.answer == .refused { return [] }
        let isOptional = call.answer == .none
        let end = isOptional ? .max : call.end ?? .max
        return effects(of: call, prefixes).map {
            Event(effect: $0, begin: call.begin, end: end, isOptional: isOptional)
        }
    }

    private static func effects(of call: Call, _ prefixes: [Int]) -> [Event.Effect] {
        func all(_ prefix: Int) -> [Int] { prefixes.indices.filter { prefixes[$0] == prefix } }
        switch (call.operation, call.answer) {
        case (.copy(let key, _, _), .absent), (.move(let key, _, _), .absent),
            (.migrate(let key, _, _, _), .absent), (.convert(let key, _), .absent),
            (.reclass(let key, _), .absent):
            return [.isAbsent(key)]
        case (.copy(_, let key, _), .duplicate), (.move(_, let key, _), .duplicate),
            (.migrate(_, let key, _, _), .duplicate),
            (.add(let key, _), .duplicate):
            return [.isPresent(key)]
        case (.convert(let key, _), .already): return [.isDurable(key)]
        case (.migrate(let from, let to, _, let isKept), .already):
            return [.isDurable(to)] + (isKept ? [] : [.isAbsent(from)])
        case (.read(let key), .value(let value)): return [.read(key, value)]
        case (.write(let key, let value, let `class`), _): return [.write(key, value, class: `class`)]
        case (.add(let key, let value), _): return [.add(key, value)]
        case (.remove(let key), _), (.expire(let key, _), _): return [.write(key, nil, class: nil)]
        case (.update(let key, let value), .value(let old)):
            return [.exchange(key, from: old, to: value, class: nil)]
        case (.update(let key, let value), _): return [.write(key, value, class: nil)]
        case (.move(let from, let to, _), .done) where from == to,
            (.copy(let from, let to, _), .done) where from == to:
            // It changes nothing, and need not make durable what is there.
            return [.isPresent(from)]
        case (.move(let from, let to, let replacing), _): return [.move(from, to, replacing: replacing)]
        case (.copy(let from, let to, let replacing), _): return [.copy(from, to, replacing: replacing)]
        case (.migrate(let from, let to, _, let isKept), _): return [.migrate(from, to, keeping: isKept)]
        case (.refresh(let key, let value), let answer) where answer == .none || answer == .value(value):
            return call.note.map { [.exchange(key, from: $0, to: value, class: nil)] } ?? []
        case (.refresh(let key, _), .value(let value?)): return [.holds(key, value)]
        case (.refresh(let key, _), _): return [.isAbsent(key)]
        case (.writeOld(let key, let value, let `class`), _):
            return [.write(key, value.inFormOfLockbox2, class: `class`)]
        case (.readOld(let key), .value(let value?)): return [.holds(key, value)]
        case (.rewriteOld(let key), .value(let value)):
            let read = value.map { Event.Effect.holds(key, $0) } ?? .isAbsent(key)
            return [read, .write(key, value?.inFormOfLockbox2, class: nil)]
        case (.rewriteOld(let key), _): return [.write(key, call.note?.inFormOfLockbox2, class: nil)]
        case (.convert(let key, _), _): return [.convert(key)]
        case (.reclass(let key, let `class`), _): return [.reclass(key, `class`)]
        case (.batch(let key, let value, let other), _):
            return [.write(key, value, class: nil)] + (key == other ? [] : [.write(other, nil, class: nil)])
        case (.readAll(let prefix), .absent): return [.areAbsent(all(prefix))]
        case (.readAll(let prefix), .values(let values)): return all(prefix).map { .read($0, values[$0]) }
        case (.removeAll(let prefix), .none): return all(prefix).map { .write($0, nil, class: nil) }
        case (.removeAll(let prefix), _):
            return all(prefix).map { .removeOne($0, call: call.number) } + [.removeOthers(call: call.number)]
        case (.passcode(let new, _), .value(let old)):
            return [.exchange(prefixes.count, from: old, to: new, class: "")]
        case (.passcode(let new, _), _): return [.write(prefixes.count, new, class: "")]
        case (.addSlot(let slot, _), .done), (.addSlot(let slot, _), .none):
            return [.write(prefixes.count + 1 + slot, "slot\(slot)", class: "")]
        case (.removeSlot(let slot, _), .done):
            return [.exchange(prefixes.count + 1 + slot, from: "slot\(slot)", to: nil, class: "")]
        case (.removeSlot(let slot, _), .none): return [.write(prefixes.count + 1 + slot, nil, class: "")]
        case (.unlock(let slot), .done): return [.read(prefixes.count + 1 + slot, "slot\(slot)")]
        case (.unlock(let slot), .absent), (.removeSlot(let slot, _), .absent):
            return [.isAbsent(prefixes.count + 1 + slot)]
        case (.export, .values(let values)): return [.snapshot(values)]
        case (.load, _): return call.loaded.map { .fill($0.key, $0.value) }
        case (.read, _), (.readAll, _), (.export, _), (.lock, _), (.rotate, _),
            (.removeExpired, _), (.verify, _), (.readOld, _), (.addSlot, _), (.removeSlot, _), (.unlock, _):
            return []
        }
    }
}
