#if Etcd
    import Foundation

    import LockboxCore
    @_spi(Extensions) import LockboxStore

    /// The reports of a subscription.
    final class Notices: Sendable {
        typealias Received = (names: Set<String>, everything: Int, failures: [LockboxError])

        private let all = Protected<Received>(([], 0, []))

        func receive(_ notice: Result<RecordNotice, any Error>) {
            all.withLock { all in
                switch notice {
                case .success(.records(let names)): all.names.formUnion(names)
                case .success(.everything): all.everything += 1
                case .failure(let error):
                    all.failures.append(error as? LockboxError ?? .notSupported(operation: "\(error)"))
                }
            }
        }

        var received: Received { all.withLock { $0 } }

        func wait(_ isThere: (Received) -> Bool) -> Bool {
            let deadline = ContinuousClock.now + .seconds(20)
            while ContinuousClock.now < deadline {
                if isThere(received) { return true }
                usleep(10_000)
            }
            return false
        }
    }
#endif
