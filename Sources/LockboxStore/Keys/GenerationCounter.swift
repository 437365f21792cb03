import LockboxCore

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

/// The counter of a store, if its program uses one.
struct StoreCounter: Sendable {
    private let counter: (any GenerationCounter)?
    private let location: String

    init(_ counter: (any GenerationCounter)?, of location: String) {
        (self.counter, self.location) = (counter, location)
    }

    var isUsed: Bool { counter != nil }

    /// The counter's value, or nil if this program uses none.
    var value: UInt64? {
        get throws {
            guard let counter else { return nil }
            if let value = try counter.read() { return value }
            throw LockboxError.missing(record: "the counter of \(location)")
        }
    }

    /// Called under the keybag's lock, as the counter must never be ahead of the keybag. An increment that fails is made up for after
    /// the next change.
    func follow(_ generation: UInt64) {
        guard let counter, var value = (try? counter.read()) ?? nil else { return }
        for _ in 0..<Knowledge.maximumIncrements where value < generation {
            guard let next = try? counter.increment() else { return }
            value = next
        }
    }
}
