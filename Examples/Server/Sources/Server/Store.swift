import Foundation
import Lockbox

#if Etcd
    import LockboxEtcd
#endif

/// The store is in files, or in a cluster if the environment names its members:
///
///     ETCD_ENDPOINTS=https://a.example:2379,https://b.example:2379
///     ETCD_AUTHORITY=/etc/server/etcd-ca.pem
///     CREDENTIALS_DIRECTORY=…    which systemd sets, with the device key in the file lockbox-device-key
func lockbox() throws -> Lockbox {
    #if Etcd
        let environment = ProcessInfo.processInfo.environment
        if let endpoints = environment["ETCD_ENDPOINTS"] {
            let storage = try EtcdStorage(
                endpoints: endpoints.split(separator: ",").map(String.init),
                root: "/lockbox/server",
                security: .tls(caFile: environment["ETCD_AUTHORITY"])
            )
            let backend = SealedBackend(storage: storage, deviceKey: .credential())
            return try Lockbox(keyPrefix: "com.example.server", backend: backend)
        }
    #endif
    return try Lockbox(keyPrefix: "com.example.server")
}
