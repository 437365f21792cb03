import Lockbox
@_spi(Extensions) import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Records in memory, to which commits wait for nobody. Before each call of it another process may do something.
struct InterruptedStorage: WrappingStorage {
    let target: InMemoryStorage
    let interruption: Interruption

    func begin(_ call: StorageCall) { interruption.call() }
}
