import Lockbox
import LockboxIdentities
import NIOCertificateReloading
import NIOConcurrencyHelpers

/// The identity that a server proves itself with: an item of a lockbox, and what that becomes while the server runs.
///
/// Handshakes are answered from memory: they wait neither for a disk nor for a cluster.
final class ServerIdentity: Sendable {
    /// For `TLSConfiguration.makeServerConfiguration(certificateReloader:)`.
    let reloader: TimedCertificateReloader

    private let lockbox: Lockbox
    private let key: String
    private let latest: NIOLockedValueBox<IdentityItem>
    private let pause = Duration.seconds(5)

    /// Reads the item. Throws if it is absent, locked or damaged, or if its key does not belong to its certificate.
    init(_ lockbox: Lockbox, key: String) async throws {
        let latest = NIOLockedValueBox(try await Self.read(lockbox, key))
        (self.lockbox, self.key, self.latest) = (lockbox, key, latest)
        // Chain and key come from one read, so they always belong together.
        reloader = try .makeReloaderValidatingSources(
            refreshInterval: pause,
            certificateSource: .init(
                location: .memory { Array(latest.withLockedValue { $0 }.chainPEM.utf8) },
                format: .pem
            ),
            privateKeySource: .init(
                location: .memory { Array(latest.withLockedValue { $0 }.pkcs8) },
                format: .der
            )
        )
    }

    /// Takes what the item becomes, at once, until the task is canceled. This is in place of the reloader's own `run()`,
    /// which would only ask again at intervals.
    ///
    /// If the item cannot be used, or was removed, the last good identity stays, and the item is read again after a pause.
    func run() async throws {
        while true {
            do {
                let changes = try await lockbox.async { try $0.changes() }
                try await renew()  // it may have changed before
                for try await _ in changes { try await renew() }
            } catch {
                log("still the last good identity: \(error)")
            }
            try await Task.sleep(for: pause)
        }
    }

    private func renew() async throws {
        let identity = try await Self.read(lockbox, key)
        latest.withLockedValue { $0 = identity }
        try reloader.reload()
    }

    private static func read(_ lockbox: Lockbox, _ key: String) async throws -> IdentityItem {
        guard let identity = try await lockbox.unarchiveObject(IdentityItem.self, forKey: key) else {
            throw LockboxError.itemNotFound(key: key)
        }
        try identity.validate()
        return identity
    }
}
