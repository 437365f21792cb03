import Foundation
import LockboxIdentities
import Testing

import Lockbox

#if Etcd
    import LockboxEtcd
#endif

/// Where the server's identity is.
enum Place: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case files
    case cluster

    var testDescription: String { rawValue }

    /// Those that this build and this machine have.
    static let available: [Place] = {
        #if Etcd
            if EtcdProcess.program != nil { return allCases }
        #endif
        return [.files]
    }()
}

/// A new store, and how a program finds it.
final class TestStore {
    let folder: String
    let lockbox: Lockbox
    let environment: [String: String]
    private let cluster: AnyObject?

    init(_ place: Place, prefix: String) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "lockbox-server-\(UUID())").path()
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var environment = ["PATH": "/usr/bin:/bin", "HOME": folder, "SWIFT_BACKTRACE": "enable=no"]
        switch place {
        case .files:
            environment["LOCKBOX_DIRECTORY"] = "\(folder)/store"
            let backend = EncryptedFileBackend(directory: "\(folder)/store")
            lockbox = try Lockbox(keyPrefix: prefix, backend: backend)
            cluster = nil
        case .cluster:
            #if Etcd
                let etcd = try EtcdProcess(folder)
                environment.merge(etcd.environment) { $1 }
                lockbox = try Lockbox(keyPrefix: prefix, backend: etcd.backend())
                cluster = etcd
            #else
                throw Failure("built without the trait Etcd")
            #endif
        }
        self.environment = environment
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    private var started = 0

    /// Starts the server, and does not wait.
    func start(port: Int = 0) throws -> KeptProcess {
        started += 1
        return try KeptProcess(
            [example("Server"), "\(port)"],
            environment: environment,
            log: "\(folder)/server-\(started).log"
        )
    }

    /// Stores an identity as somebody does who has renewed it: with the program, and from another process.
    func store(_ pem: String) async throws -> (status: Int32, output: String) {
        try await run([example("Server"), "store"], environment: environment, input: pem)
    }

    func store(_ identity: IdentityItem) async throws {
        let (status, output) = try await store(identity.pem)
        guard status == 0 else { throw Failure("status \(status): \(output)") }
    }
}
