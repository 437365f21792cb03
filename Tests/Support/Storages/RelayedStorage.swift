import Lockbox
@_spi(Extensions) import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Records in memory, whose notices arrive late or changed.
struct RelayedStorage: WrappingStorage, WatchingStorage {
    typealias Notice = Result<RecordNotice, any Error>
    typealias Report = @Sendable (Notice) -> Void

    let target = InMemoryStorage()
    private let relay: @Sendable (Notice, @escaping Report) -> Void

    /// - Parameter relay: Receives each notice, and whom it is for.
    init(_ relay: @escaping @Sendable (Notice, @escaping Report) -> Void) { self.relay = relay }

    /// For every change it reports only that anything may have changed, as a queue that is full does.
    static var overflowing: Self { Self { notice, report in report(notice.map { _ in .everything }) } }

    func subscribe(to namespace: String, _ report: @escaping Report) -> @Sendable () -> Void {
        target.subscribe(to: namespace) { [relay] notice in relay(notice, report) }
    }
}
