/// A counter that only goes up, and that nobody can put back, such as one in a TPM. With it, a store notices that an older
/// copy of itself was put back, or that it was removed, also after a restart of the machine.
///
/// Each store needs a counter of its own. It follows the number of the keybag, which rises by two with every change of a
/// passcode or slot and with every rotation, not with writes of items. It is read whenever the keybag is. A process that is killed between such a change and the
/// counter leaves it behind: until the next change, a copy from just before is not noticed.
///
/// If a store is to use a counter that already stands higher than the store's own number, call `acceptRestored` of
/// ``SealedBackend`` once, with the counter: it moves the number beyond the counter.
public protocol GenerationCounter: Sendable {
    /// The value, or nil if there is no counter. Lockbox never takes that for the first use, but throws
    /// ``LockboxError/missing(record:)``.
    ///
    /// - Throws: ``LockboxError``, which is passed on.
    func read() throws -> UInt64?

    /// Increments the counter by one, durably.
    ///
    /// - Returns: The new value.
    /// - Throws: ``LockboxError`` if it could not be incremented. The change that it was to follow is made all the same, and the
    ///   next one makes up for it.
    func increment() throws -> UInt64
}
