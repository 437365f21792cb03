import LockboxPlatform

/// A closure of `update` that runs on this thread.
///
/// Not a task-local value, which tasks that the closure starts would inherit: they may go on after it.
final class UpdateClosure {
    private let lockbox: Lockbox
    private let outer: UpdateClosure?

    private init(_ lockbox: Lockbox) {
        self.lockbox = lockbox
        outer = Self.innermost
    }

    private static let threadKey = {
        var key = pthread_key_t()
        let result = pthread_key_create(&key, nil)
        precondition(result == 0, "pthread_key_create: \(result)")
        return key
    }()

    private static var innermost: UpdateClosure? {
        pthread_getspecific(threadKey).map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    static func run<Result>(of lockbox: Lockbox, _ body: () throws -> Result) rethrows -> Result {
        let closure = UpdateClosure(lockbox)
        pthread_setspecific(threadKey, Unmanaged.passUnretained(closure).toOpaque())
        defer {
            pthread_setspecific(threadKey, closure.outer.map { Unmanaged.passUnretained($0).toOpaque() })
        }
        return try body()
    }

    /// Without this check, the two would wait for each other, or start again for ever.
    ///
    /// - Throws: ``LockboxError/invalidKey(reason:)`` in a closure that updates an item with this prefix.
    static func check(_ lockbox: Lockbox, _ prefix: String) throws(LockboxError) {
        var closure = innermost
        while let running = closure {
            if running.lockbox.keyPrefix == prefix, running.lockbox.isSameStore(as: lockbox) {
                throw .invalidKey(
                    reason:
                        "the closure of an update changes an item with the same prefix, \(String(reflecting: prefix)); "
                        + "make that change before or after the update"
                )
            }
            closure = running.outer
        }
    }
}
