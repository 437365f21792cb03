import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Runs `other` before the call of that number that is made while the flag is up, and tells whether there was one.
final class Interruption: Sendable {
    private let number: Int
    private let count = Protected(0)
    private let isUp = Protected(false)
    private let other: @Sendable () -> Void

    /// How far apart the calls are at which a test that takes long interrupts: in CI every fourth counts, from a random one on.
    static let stride = ProcessInfo.processInfo.environment["LOCKBOX_EVERY_CALL"] == nil ? 4 : 1
    static var start: Int { .random(in: 1 - stride...0) }

    init(at number: Int, _ other: @escaping @Sendable () -> Void) {
        self.number = number
        self.other = other
    }

    func raise() { isUp.withLock { $0 = true } }

    var hasHappened: Bool { count.withLock { $0 } >= number }

    func call() {
        guard isUp.withLock({ $0 }) else { return }
        let isNow = count.withLock { count in
            count += 1
            return count == number
        }
        if isNow { other() }
    }

    var calls: SystemCalls {
        SystemCalls { _ in
            self.call()
            return nil
        }
    }

    var kernel: KernelKeyring {
        KernelKeyring {
            self.call()
            return nil
        }
    }
}
