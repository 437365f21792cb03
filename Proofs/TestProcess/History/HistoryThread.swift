import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// One thread of a worker: makes random calls and records them.
final class HistoryThread {
    let engine: HistoryEngine
    let settings: HistorySettings
    let log: HistoryLog
    var random: HistoryRandom
    private let first: Int
    private var count = 0
    private let calls: [HistoryCall]
    /// Backups this thread has made, with what is in them.
    var backups: [(path: String, items: [StoredItem])] = []
    /// Items this thread has moved out of the store.
    var carried: [StoredItem] = []

    init(_ engine: HistoryEngine, _ settings: HistorySettings, number: Int) throws {
        self.engine = engine
        self.settings = settings
        log = try HistoryLog("\(settings.folder)/\(settings.worker).\(number)")
        first = (settings.worker << 27) + (number << 24)
        random = HistoryRandom(seed: settings.seed &+ UInt64(first))
        calls = HistoryCall.allCases.flatMap { Array(repeating: $0, count: settings.mix.weight($0)) }
    }

    var items: any LockboxBackend { engine.items }

    func run(isStopped: () -> Bool) throws {
        while count < settings.calls, !isStopped() { try make(random.element(calls)) }
    }

    /// The number of a call: no other has it.
    func next() -> Int {
        count += 1
        return first + count
    }

    /// Returns the outcome.
    @discardableResult
    func record(_ call: String, _ body: () throws -> String) -> String { log.record(call, body) }

    func randomPrefix() -> String { HistorySettings.prefix(random.number(settings.prefixes)) }

    func randomKey() throws -> ItemKey {
        try ItemKey(prefix: randomPrefix(), key: String(random.number(settings.keys)))
    }

    func randomClass() -> Accessibility { random.element(settings.mix.classes) }

    func name(_ key: ItemKey) -> String { "\(key.prefix)/\(key.key)" }

    func text(_ items: [StoredItem]) throws -> String {
        try items.map { " \(name($0.key))=\(try HistoryState($0))" }.joined()
    }
}

/// The arguments of a worker.
struct HistorySettings: Sendable {
    var engine = ""
    var folder = ""
    var worker = 0
    var threads = 1
    var isShared = false
    var seed: UInt64 = 0
    var calls = Int.max
    var mix = HistoryMix.items
    var prefixes = 2
    var keys = 3
    var defect: String?

    static func prefix(_ number: Int) -> String { "history\(number)" }

    init(_ arguments: [String]) throws {
        for argument in arguments {
            let parts = argument.split(separator: "=", maxSplits: 1).map(String.init)
            try require(parts.count == 2 && set(parts[0], parts[1]), "bad argument \(argument)")
        }
        // That much room is in a call's number.
        try require(worker < 1 << 12 && threads <= 1 << 3, "too many workers or threads")
    }

    private mutating func set(_ name: String, _ value: String) -> Bool {
        func number(_ property: WritableKeyPath<Self, Int>) -> Bool {
            guard let number = Int(value) else { return false }
            self[keyPath: property] = number
            return true
        }
        switch name {
        case "engine": engine = value
        case "folder": folder = value
        case "worker": return number(\.worker)
        case "threads": return number(\.threads)
        case "calls": return number(\.calls)
        case "prefixes": return number(\.prefixes)
        case "keys": return number(\.keys)
        case "backends": isShared = value == "shared"
        case "seed": seed = UInt64(value) ?? 0
        case "mix": mix = HistoryMix(rawValue: value) ?? .items
        case "defect": defect = value
        default: return false
        }
        return true
    }
}

/// SplitMix64: the same numbers for the same seed.
struct HistoryRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var z = state
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    mutating func number(_ count: Int) -> Int { Int.random(in: 0..<count, using: &self) }
    mutating func isOne(in count: Int) -> Bool { number(count) == 0 }
    mutating func element<Element>(_ elements: some Collection<Element>) -> Element {
        elements.randomElement(using: &self)!
    }
}
