public import LockboxPlatform

/// The process's environment variables. Empty variables count as unset. So do all variables in a program that has more
/// rights than the user who has started it.
package enum Environment {
    /// - Throws: `invalidLocation` if the value is not UTF-8. Repaired, two folders could become one.
    package static subscript(name: String) -> String? {
        get throws(LockboxError) {
            guard let bytes = bytes(name) else { return nil }
            if let text = String(validating: bytes, as: UTF8.self) { return text }
            throw LockboxError.invalidLocation(location: name, reason: "the variable is not UTF-8")
        }
    }

    /// The value as it is.
    package static func bytes(_ name: String) -> [UInt8]? {
        guard let value = world.variable(name), !value.isEmpty else { return nil }
        return value
    }
}

extension Sequence<UInt8> {
    /// Two digits for each byte.
    @_spi(Extensions)
    public var hexadecimal: String {
        map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}

extension Data {
    /// Returns nil unless these are two digits for each byte.
    @_spi(Extensions)
    public init?(hexadecimal text: String) {
        guard text.utf8.count.isMultiple(of: 2), text.utf8.allSatisfy({ UInt8(ascii: "0") <= $0 }) else {
            return nil
        }
        self.init()
        var rest = text[...]
        while !rest.isEmpty {
            guard let byte = UInt8(rest.prefix(2), radix: 16) else { return nil }
            append(byte)
            rest = rest.dropFirst(2)
        }
    }
}

extension UnsafeMutablePointer<pthread_mutex_t> {
    fileprivate func acquire() {
        if pthread_mutex_trylock(self) != 0 { world.waitForMutex(self) }
    }
}

/// A POSIX mutex. FoundationEssentials has no locks.
package final class Lock: @unchecked Sendable {
    // Unchecked: the pointer never changes, and a mutex is made to be shared by threads.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    /// - Parameter isRecursive: Whether the thread that holds the lock may take it again.
    package init(isRecursive: Bool = false) {
        var attributes = pthread_mutexattr_t()
        pthread_mutexattr_init(&attributes)
        pthread_mutexattr_settype(
            &attributes,
            CInt(isRecursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL)
        )
        let result = pthread_mutex_init(mutex, &attributes)
        precondition(result == 0, "pthread_mutex_init: \(result)")
        pthread_mutexattr_destroy(&attributes)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    package func withLock<Result, Failure>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result {
        mutex.acquire()
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }
}

/// A value protected by a lock.
///
/// Not `Synchronization.Mutex`, because ThreadSanitizer on Linux does not recognize it and would report races
/// in every app that uses Lockbox.
package final class Protected<Value: Sendable>: @unchecked Sendable {
    // Unchecked, also for exclusive access: the value is accessed only while the lock is held, which no thread can take twice.
    private let lock = Lock()
    @exclusivity(unchecked) private var value: Value

    package init(_ value: Value) { self.value = value }

    package func withLock<Result, Failure>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try lock.withLock { () throws(Failure) in try body(&value) }
    }
}

/// A static value, of which each process of a simulation has one of its own.
package final class ProcessWide<Value: AnyObject & Sendable>: Sendable {
    private let make: @Sendable () -> Value
    private let real: Value

    package init(_ make: @escaping @Sendable () -> Value) { (self.make, real) = (make, make()) }

    package var value: Value { world.own(ObjectIdentifier(self), make) as? Value ?? real }
}

/// A value that one thread sets, and another one waits for.
///
/// Not a `DispatchSemaphore`: on Linux, setting the system's time moves the end of its waits.
package final class Awaited<Value: Sendable>: @unchecked Sendable {
    // Unchecked: the pointers never change, and the value is accessed only while the mutex is held.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value?

    package init() {
        pthread_mutex_init(mutex, nil)
        initialize(condition)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    package func set(_ value: Value) {
        mutex.acquire()
        defer { pthread_mutex_unlock(mutex) }
        self.value = value
        pthread_cond_broadcast(condition)
    }

    /// Returns nil after that time, perhaps earlier.
    package func wait(_ time: Duration) -> Value? {
        mutex.acquire()
        defer { pthread_mutex_unlock(mutex) }
        if value == nil {
            world.wait(for: condition, mutex, atMost: time)
        }
        return value
    }
}

/// ``Protected`` for extensions, which see no `package` declaration.
@_spi(Extensions)
public struct Guarded<Value: Sendable>: Sendable {
    private let value: Protected<Value>

    /// Protects a value.
    public init(_ value: Value) { self.value = Protected(value) }

    /// Calls a closure with the value while no other thread has it.
    public func withLock<Result, Failure>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try value.withLock(body)
    }
}

/// Text that is shown to people. Names of items and files may come from another program.
@_spi(Extensions)
public enum ShownText {
    /// Returns the text on one line: characters that end a line, move a terminal's cursor or turn the direction of the text are
    /// escaped.
    public static func line(_ text: String) -> String {
        var line = ""
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator, .format: line += scalar.escaped(asASCII: true)
            default: line.unicodeScalars.append(scalar)
            }
        }
        return line
    }
}

/// A value that printing, also with `dump(_:)`, shows only a summary of, which contains no secret.
package protocol Undescribed: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text that printing shows: the name of the type, unless the type has more to say.
    var summary: String { get }
}

extension Undescribed {
    package var summary: String { "\(Self.self)" }
    /// The summary.
    public var description: String { ShownText.line(summary) }
    /// Same as ``description``.
    public var debugDescription: String { description }
    /// Keeps `dump(_:)` from showing the contents.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
