import Foundation

@testable import LockboxCore
@testable import LockboxStore

extension SystemCalls {
    /// Runs `body` before each of these calls, until it returns true.
    static func before(_ call: Call, _ body: @escaping @Sendable () -> Bool) -> SystemCalls {
        let isDone = Protected(false)
        return SystemCalls {
            if $0 == call, !isDone.withLock({ $0 }), body() { isDone.withLock { $0 = true } }
            return nil
        }
    }

    /// Runs `body` before the first call after each change of the keybag, with its generation and its bytes.
    static func atEachGeneration(
        of store: TestStore,
        _ body: @escaping @Sendable (UInt64, [UInt8]) -> Void
    ) -> SystemCalls {
        let (path, last) = (store.keybag, Protected<UInt64?>(nil))
        return SystemCalls { _ in
            guard let keybag = try? readBytes(path),
                let generation = try? keybag.withUnsafeBytes({ try KeybagHeader($0).generation }),
                last.withLock({ last in
                    defer { last = generation }
                    return last != generation
                })
            else { return nil }
            body(generation, keybag)
            return nil
        }
    }

    /// From this call on nothing works any more, as for a process that is killed there.
    static func failing(from call: Int) -> SystemCalls {
        let count = Protected(0)
        return SystemCalls { _ in
            count.withLock {
                $0 += 1
                return $0 >= call ? .failure(EIO) : nil
            }
        }
    }
}
