extension SimulatedHistory {
    /// A part of a call that takes effect at one instant.
    struct Event {
        enum Effect: Hashable {
            case read(Int, String?)
            /// All items at one instant.
            case snapshot([Int: String])
            case write(Int, String?, class: String?)
            /// The part of a removal of all, the call with that number, for one key, and its end.
            case removeOne(Int, call: Int)
            case removeOthers(call: Int)
            /// Writes if it is absent, in full.
            case fill(Int, String)
            case exchange(Int, from: String?, to: String?, class: String?)
            case add(Int, String)
            case move(Int, Int, replacing: Bool)
            case copy(Int, Int, replacing: Bool)
            case migrate(Int, Int, keeping: Bool)
            /// Gives an item of Lockbox 2 the new form.
            case convert(Int)
            case reclass(Int, String)
            /// A value in any form and of any class.
            case holds(Int, String)
            case isAbsent(Int)
            /// All at one instant.
            case areAbsent([Int])
            case isPresent(Int)
            /// The same, and no power cut takes it away.
            case isDurable(Int)
        }

        let effect: Effect
        let begin: Int
        let end: Int
        let isOptional: Bool
    }

    /// How far each event is: 0, in its middle, or ``done``.
    private struct Position: Hashable {
        static let done: UInt8 = 3

        var progress: [UInt8]
        var state: State
        /// What migrations have read.
        var read: [Int: String] = [:]
    }

    /// Returns nil if an order explains all answers, or else where the best attempt ends.
    ///
    /// - Parameters:
    ///   - isAfterCut: Whether the reads may have seen what a power cut then took away.
    ///   - isDamaged: Whether reads of the disk have failed. A write that names no class gives the default one to an item that could
    ///     not be read, and an import replaces it.
    ///   - end: What was read at the end.
    func contradiction(from begin: State, to end: State, prefixes: [Int], isAfterCut: Bool, isDamaged: Bool)
        -> String?
    {
        // Slots that were asked for since.
        let begin = begin + State(repeating: nil, count: end.count - begin.count)
        var events = calls.flatMap { Self.events(of: $0, prefixes: prefixes) }
        events.removeAll { (isAfterCut || $0.isOptional) && $0.isRead }
        if isDamaged { events += Self.replacements(by: calls) }
        for (key, value) in end.enumerated() {
            events.append(Event(effect: .read(key, value), begin: .max - 1, end: .max, isOptional: false))
        }
        // Few of the calls without an answer took effect, and those mostly show.
        let seen = Set(events.flatMap(\.seenValues))
        let likely = events.filter { !$0.isOptional || $0.writtenValue.map(seen.contains) ?? false }
        if Self.contradiction(in: likely, from: begin, ignoringClasses: isDamaged) == nil { return nil }
        if !events.contains(where: \.isOfPresence) {
            // A class stays when another value is written.
            events.removeAll { event in
                event.isOptional && !event.namesClass
                    && event.writtenValue.map { !seen.contains($0) } ?? false
            }
        }
        let reason = Self.contradiction(in: events, from: begin, ignoringClasses: isDamaged)
        return reason == Self.tooMany ? reason : reason.map { "from \(begin) to \(end): \($0)" }
    }

    /// The answer if there were too many calls at the same time to say.
    static let tooMany = "too many calls at the same time"

    private static func contradiction(in events: [Event], from begin: State, ignoringClasses: Bool) -> String?
    {
        var visited: Set<Position> = []
        var stack = [Position(progress: [UInt8](repeating: 0, count: events.count), state: begin)]
        var best = (count: -1, position: stack[0])
        while let position = stack.popLast() {
            guard visited.insert(position).inserted else { continue }
            let open = events.indices.filter { position.progress[$0] < Position.done }
            let must = open.filter { !events[$0].isOptional }
            if must.isEmpty { return nil }
            if events.count - must.count > best.count { best = (events.count - must.count, position) }
            let (limit, count) = (must.map { events[$0].end }.min()!, stack.count)
            for index in candidates(open, events, position, before: limit) {
                if let next = successor(of: position, index, events, ignoringClasses: ignoringClasses) {
                    // A read that is right now need not wait.
                    if events[index].isRead { stack.removeLast(stack.count - count) }
                    stack.append(next)
                    if events[index].isRead { break }
                }
            }
            if visited.count > 200_000 { return tooMany }
        }
        let left = events.indices.filter {
            best.position.progress[$0] < Position.done && !events[$0].isOptional
        }
        let first = left.map { events[$0] }.min { $0.end < $1.end }!
        return
            "after \(best.position.state) nothing explains \(first.effect) at \(first.begin)-\(first.end)"
    }

    /// Those that may be next: of equal ones the one that ends first, and last the ones that must have happened.
    private static func candidates(_ open: [Int], _ events: [Event], _ position: Position, before limit: Int)
        -> [Int]
    {
        var first: [Event.Effect: Int] = [:]
        for index in open where events[index].begin < limit && position.progress[index] == 0 {
            if let other = first[events[index].effect], events[other].end <= events[index].end { continue }
            first[events[index].effect] = index
        }
        let begun = open.filter { position.progress[$0] > 0 }
        return (begun + first.values).sorted {
            (events[$0].isOptional ? 0 : 1, $0) < (events[$1].isOptional ? 0 : 1, $1)
        }
    }

    /// An import may replace what could not be read.
    private static func replacements(by calls: [Call]) -> [Event] {
        var begins: [Event.Effect: Int] = [:]
        for call in calls {
            for (key, value) in call.loaded {
                let effect = Event.Effect.write(key, value, class: "")
                begins[effect] = min(begins[effect] ?? .max, call.begin)
            }
        }
        return begins.map { Event(effect: $0.key, begin: $0.value, end: .max, isOptional: true) }
    }

    private static func successor(
        of position: Position,
        _ index: Int,
        _ events: [Event],
        ignoringClasses: Bool
    ) -> Position? {
        func isSame(_ one: String?, _ other: String?) -> Bool {
            ignoringClasses ? one?.value == other?.value : one == other
        }
        let event = events[index]
        var next = position
        next.progress[index] = Position.done
        switch event.effect {
        case .read(let key, let value): if !isSame(position.state[key], value) { return nil }
        case .holds(let key, let value): if position.state[key]?.text != value { return nil }
        case .snapshot(let values):
            let items = position.state.prefix(Simulation.keys.count)
            if items.enumerated().contains(where: { !isSame(values[$0], $1) }) { return nil }
        case .isAbsent(let key): if position.state[key] != nil { return nil }
        case .areAbsent(let keys): if keys.contains(where: { position.state[$0] != nil }) { return nil }
        case .isPresent(let key), .isDurable(let key): if position.state[key] == nil { return nil }
        case .write(let key, let value, let `class`): next.state.write(value, to: key, `class`)
        case .removeOne(let key, _):
            // Only what it has found.
            if position.state[key] == nil { return nil }
            next.state[key] = nil
        case .removeOthers(let call):
            for (index, event) in events.enumerated() where position.progress[index] == 0 {
                guard case .removeOne(let key, call) = event.effect else { continue }
                (next.state[key], next.progress[index]) = (nil, Position.done)
            }
        case .fill(let key, let value): if position.state[key] == nil { next.state[key] = value }
        case .exchange(let key, let old, let new, let `class`):
            if position.state[key]?.value != old { return nil }
            next.state.write(new, to: key, `class`)
        case .add(let key, let value):
            if position.state[key] != nil { return nil }
            next.state.write(value, to: key, nil)
        case .copy(let from, let to, let replacing):
            guard let value = position.state.moved(from, to, replacing) else { return nil }
            next.state[to] = value
        case .move(let from, let to, let replacing):
            if position.progress[index] == 1 {
                next.state[from] = nil
            } else {
                guard let value = position.state.moved(from, to, replacing) else { return nil }
                next.state[to] = value
                next.progress[index] = from == to ? Position.done : 1
            }
        case .migrate(let from, let to, let isKept):
            next.progress[index] = position.progress[index] + 1
            switch position.progress[index] {
            case 0:
                guard let value = position.state[from] else { return nil }
                next.read[index] = value
            case 1:
                guard let value = position.read[index] else { return nil }
                // One of Lockbox 2 is converted, and takes an equal value of any class for its own.
                let isDone = value.isOfLockbox2 && position.state[to]?.value == value.text
                guard isDone || position.state[to] == nil || position.state[to] == value else { return nil }
                if !isDone { next.state[to] = value.converted }
                if isKept { (next.progress[index], next.read[index]) = (Position.done, nil) }
            default:
                guard position.state[from] == nil || position.state[from] == position.read[index] else {
                    return nil
                }
                (next.state[from], next.read[index]) = (nil, nil)
            }
        case .convert(let key):
            guard let value = position.state[key], value.isOfLockbox2 else { return nil }
            next.state[key] = value.converted
        case .reclass(let key, let `class`):
            guard let value = position.state[key] else { return nil }
            next.state.write(value.value, to: key, `class`)
        }
        // A call that changes nothing needs no lock.
        if next.state != position.state, isLocked(event, position, events, but: index) { return nil }
        return next
    }

    /// Whether another event has the keys, in the middle of a move whose process lives.
    private static func isLocked(_ event: Event, _ position: Position, _ events: [Event], but own: Int)
        -> Bool
    {
        position.progress.indices.contains { index in
            guard index != own, position.progress[index] == 1, !events[index].isOptional,
                case .move(let from, let to, _) = events[index].effect
            else { return false }
            return event.keys.contains(from) || event.keys.contains(to)
        }
    }
}

extension SimulatedHistory.State {
    /// A write that names no class keeps the one that is there.
    fileprivate mutating func write(_ value: String?, to key: Int, _ class: String?) {
        let name =
            `class` ?? self[key].map { String($0.dropFirst($0.value.count + 1)) }
            ?? SimulatedHistory.defaultClass
        self[key] = value.map { name.isEmpty ? $0 : "\($0)@\(name)" }
    }

    fileprivate func moved(_ from: Int, _ to: Int, _ replacing: Bool) -> String? {
        guard let value = self[from], replacing || self[to] == nil || self[to] == value || from == to else {
            return nil
        }
        return value
    }
}

extension String {
    /// What stands before the class.
    fileprivate var value: String { String(prefix { $0 != "@" }) }
    /// The same without the form.
    fileprivate var text: String { String(prefix { $0 != "@" && $0 != "/" }) }
    var inFormOfLockbox2: String { "\(self)/2" }
    fileprivate var isOfLockbox2: Bool { value != text }
    fileprivate var converted: String { text + dropFirst(value.count) }
}

extension SimulatedHistory.Event {
    fileprivate var isRead: Bool {
        switch effect {
        case .read, .holds, .snapshot, .isAbsent, .areAbsent, .isPresent: true
        default: false
        }
    }

    /// Whether it shows that there was an item, and not which.
    fileprivate var isOfPresence: Bool {
        switch effect {
        case .isPresent, .isDurable, .move, .copy, .migrate, .convert, .reclass: !isOptional
        default: false
        }
    }

    fileprivate var namesClass: Bool {
        switch effect {
        case .write(_, _, .some), .reclass: true
        default: false
        }
    }

    /// The value that shows that it happened.
    fileprivate var writtenValue: String? {
        switch effect {
        case .write(_, let value?, _), .fill(_, let value), .exchange(_, _, let value?, _),
            .add(_, let value):
            value.text
        default: nil
        }
    }

    fileprivate var seenValues: [String] {
        switch effect {
        case .read(_, let value?), .exchange(_, let value?, _, _), .holds(_, let value): [value.text]
        case .snapshot(let values): values.values.map(\.text)
        default: []
        }
    }

    fileprivate var keys: [Int] {
        switch effect {
        case .read(let key, _), .isAbsent(let key), .isPresent(let key), .isDurable(let key),
            .write(let key, _, _),
            .fill(let key, _), .removeOne(let key, _), .exchange(let key, _, _, _), .add(let key, _),
            .convert(let key), .reclass(let key, _), .holds(let key, _):
            [key]
        case .move(let from, let to, _), .copy(let from, let to, _), .migrate(let from, let to, _):
            [from, to]
        case .snapshot, .areAbsent, .removeOthers: []
        }
    }
}
