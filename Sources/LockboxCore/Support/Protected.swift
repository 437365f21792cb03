/// A value protected by a lock.
///
/// Not `Synchronization.Mutex`, because ThreadSanitizer on Linux does not recognize it and would report races
/// in every app that uses Lockbox.
package final class Protected<Value: Sendable>: @unchecked Sendable {
    // Unchecked, also for exclusive access: the value is accessed only while the lock is held, which nobody can take twice.
    private let lock = Lock()
    @exclusivity(unchecked) private var value: Value

    package init(_ value: Value) { self.value = value }

    package func withLock<Result, Failure>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try lock.withLock { () throws(Failure) in try body(&value) }
    }
}
