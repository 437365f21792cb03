/// A value behind a lock.
///
/// Not `Synchronization.Mutex`: on Linux ThreadSanitizer does not see that one, and would report races in every app
/// that uses Lockbox.
package final class Protected<Value: Sendable>: @unchecked Sendable {
    // Unchecked, as the value is touched under the lock only.
    private let lock = Lock()
    private var value: Value

    package init(_ value: Value) { self.value = value }

    package func withLock<Result, Failure>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try lock.withLock { () throws(Failure) in try body(&value) }
    }
}
