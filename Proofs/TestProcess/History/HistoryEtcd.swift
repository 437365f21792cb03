#if Etcd
    import Foundation

    import LockboxEtcd
    @testable import LockboxCore
    @_spi(Extensions) @testable import LockboxStore

    /// A store in a cluster of etcd: `etcd:ROOT:FILE:LIMIT:ENDPOINT,ENDPOINT…`, with the device key in FILE, and a time limit
    /// in milliseconds.
    ///
    /// - Parameter argument: The text after `etcd:`.
    func etcdHistoryEngine(_ argument: String, _ defect: EtcdDefect?) throws -> HistoryEngine {
        let parts = argument.split(separator: ":", maxSplits: 3).map(String.init)
        guard parts.count == 4, let limit = Int(parts[2]) else {
            throw Violation(description: "an engine of etcd needs a root, a file, a time limit and endpoints")
        }
        let storage = try EtcdStorage(
            endpoints: parts[3].split(separator: ",").map(String.init),
            root: parts[0],
            security: .insecurePlaintext,
            timeLimit: .milliseconds(limit)
        )
        let key = DeviceKeySource.file(parts[1])
        guard let defect else {
            return HistoryEngine(backend: SealedBackend(storage: storage, deviceKey: key))
        }
        let defective = DefectiveEtcdStorage(storage, defect)
        return HistoryEngine(backend: SealedBackend(storage: defective, deviceKey: key))
    }
#endif
