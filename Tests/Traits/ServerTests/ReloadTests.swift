import Foundation
import LockboxIdentities
import Testing

import Lockbox

/// The certificate of the example's server, as a client sees it.
@Suite(.serialized) struct ReloadTests {
    private let authority: Authority
    private let old: IdentityItem
    private let new: IdentityItem

    init() throws {
        authority = try Authority("Test")
        old = try authority.identity("old")
        new = try authority.identity("new")
    }

    private func running(_ server: KeptProcess) async throws -> Client {
        let port = try await server.wait(for: "listening on port ")
        return try Client(port: #require(Int(port)), trusting: authority)
    }

    /// Visits until it has the identity's certificate. Every visit must succeed.
    private func wait(_ client: Client, for identity: IdentityItem, within limit: Duration = .seconds(20))
        async throws
    {
        let deadline = ContinuousClock.now + limit
        while try await client.visit() != identity.chain[0] {
            guard ContinuousClock.now < deadline else { throw Failure("not within \(limit)") }
        }
    }

    private func store(_ place: Place) throws -> TestStore {
        try TestStore(place, prefix: "com.example.server")
    }

    @Test(arguments: Place.available) func aRenewedIdentityIsServedAtOnce(_ place: Place) async throws {
        let store = try store(place)
        try await store.store(old)
        let server = try store.start()
        let client = try await running(server)
        #expect(try await client.visit() == old.chain[0])
        let kept = try await client.connect()
        try await kept.request()
        for identity in [new, old, new] {
            try await store.store(identity)
            try await wait(client, for: identity, within: .seconds(2))
        }
        // A connection goes on with what it began with.
        #expect(try await kept.request() == old.chain[0])
        try await kept.close()
        #expect(!server.text.contains("still the last good identity"), "\(server.text)")
    }

    /// The client does find a chain that is not the authority's, and a server that is not there.
    @Test func theClientRefusesAnotherAuthority() async throws {
        let store = try store(.files)
        try await store.store(old)
        let server = try store.start()
        let client = try await running(server)
        #expect(try await client.visit() == old.chain[0])
        let other = try Client(port: client.port, trusting: Authority("Test"))
        await #expect(throws: (any Error).self) { try await other.visit() }
        #expect(try await client.visit() == old.chain[0])
        await server.endInBackground()
        await #expect(throws: (any Error).self) { try await client.visit() }
    }

    /// The program that stores refuses it. If another program stores it unchecked, the server does.
    @Test(arguments: Place.available) func aKeyThatDoesNotFitIsRefused(_ place: Place) async throws {
        let store = try store(place)
        try await store.store(old)
        let server = try store.start()
        let client = try await running(server)
        let refused = try await store.store(new.chainPEM + old.privateKey.pem)
        #expect(refused.status == 1)
        #expect(
            refused.output.contains("it does not belong to the certificate of CN=new"),
            "\(refused.output)"
        )
        #expect(try await store.lockbox.unarchiveObject(IdentityItem.self, forKey: "tls") == old)
        #expect(try await client.visit() == old.chain[0])

        let unfit = try IdentityItem(chain: new.certificates, privateKey: old.privateKey)
        try await store.lockbox.archiveObject(unfit, forKey: "tls")
        try await server.wait(for: "still the last good identity: ")
        #expect(server.text.contains("it does not belong to the certificate of CN=new"), "\(server.text)")
        #expect(try await client.visit() == old.chain[0])
        try await store.store(new)
        try await wait(client, for: new)
    }

    @Test(arguments: Place.available) func aRemovedIdentityIsServedOn(_ place: Place) async throws {
        let store = try store(place)
        try await store.store(old)
        let server = try store.start()
        let client = try await running(server)
        try await store.lockbox.removeObject(forKey: "tls")
        try await server.wait(for: "still the last good identity: ")
        for _ in 0..<20 { #expect(try await client.visit() == old.chain[0]) }
        try await store.store(new)
        try await wait(client, for: new)

        // A new server has nothing to begin with.
        try await store.lockbox.removeObject(forKey: "tls")
        let (status, output) = try await run([example("Server"), "0"], environment: store.environment)
        #expect(status == 1 && output.contains("There is no item"), "\(output)")
    }

    @Test func aDamagedIdentityIsServedOn() async throws {
        let store = try store(.files)
        try await store.store(old)
        let server = try store.start()
        let client = try await running(server)
        let files = try FileManager.default.subpathsOfDirectory(atPath: "\(store.folder)/store/items")
        for file in files where !file.hasSuffix("lock") {
            let url = URL(filePath: "\(store.folder)/store/items/\(file)")
            guard var bytes = try? Data(contentsOf: url) else { continue }  // a folder
            bytes[bytes.count / 2] ^= 1
            try bytes.write(to: url)
        }
        // Damage is no change; it is found when the item is read again.
        try await store.lockbox.archiveObject(1, forKey: "another")
        try await server.wait(for: "still the last good identity: ")
        #expect(try await client.visit() == old.chain[0])
        try await store.store(new)
        try await wait(client, for: new)
    }

    /// It does not listen while the store is locked, and serves after an unlock. A lock later does not end what it serves.
    @Test(.timeLimit(.minutes(2))) func aServerWaitsForAnUnlock() async throws {
        let store = try store(.files)
        let backend = EncryptedFileBackend(directory: "\(store.folder)/store")
        let lockbox = try Lockbox(keyPrefix: "com.example.server", backend: backend)
        _ = try await backend.async { try $0.setPasscode(.value("1234"), strength: .interactive) }
        let key = try old.attributes().key("tls", accessibility: .whenUnlocked)
        try await lockbox.archiveObject(old, forKey: key)
        try await backend.async { try $0.lock() }

        let server = try store.start()
        try await server.wait(for: "waiting: the store is locked")
        #expect(!server.text.contains("listening"))
        // For all processes of the user; where the kernel has no keyring, nobody else can unlock it.
        if try await backend.async({ try $0.unlock(.value("1234"), scope: .user) }) == .process {
            _ = try await backend.async { try $0.removePasscode(.value("1234")) }
        }
        let client = try await running(server)
        #expect(try await client.visit() == old.chain[0])
        if try await backend.async({ try $0.status() })?.unlockScope == .user {
            try await backend.async { try $0.lock(includingAfterFirstUnlock: true) }
            for _ in 0..<20 { #expect(try await client.visit() == old.chain[0]) }
        }
    }
}
