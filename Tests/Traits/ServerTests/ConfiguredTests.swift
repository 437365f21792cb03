import Foundation
import Testing

import Lockbox

/// The output of the example Configured about secrets in each state.
@Suite struct ConfiguredTests {
    private let secret = "hunter2"

    /// The file also has a password, as one that was left there: nothing but an absent item may lead to it.
    private let file = """
        {"database": {"host": "file.example.com", "password": "left"}, "api": {"token": "left", "key": "left"}}
        """

    private func output(_ store: TestStore, _ keys: [String], _ environment: [String: String] = [:])
        async throws
        -> String
    {
        try Data(file.utf8).write(to: URL(filePath: "\(store.folder)/settings.json"))
        let own = ["CONFIG_FILE_PATH": "\(store.folder)/settings.json"].merging(environment) { $1 }
        let (status, output) = try await run(
            [example("Configured")] + keys,
            environment: store.environment.merging(own) { $1 }
        )
        #expect(status == 0, "\(output)")
        #expect(!output.contains(secret) && !output.contains("left"))
        return output
    }

    private func expect(_ output: String, _ key: String, _ lines: [String]) {
        let found = output.split(separator: "\n").drop { !$0.hasPrefix("\(key): ") }.prefix(lines.count)
        #expect(found.elementsEqual(lines) { $0.contains($1) }, "\(key): \(output)")
    }

    @Test func absentLockedAndDamagedAreToldApart() async throws {
        let store = try TestStore(.files, prefix: "com.example.configured")
        let backend = EncryptedFileBackend(directory: "\(store.folder)/store")
        let lockbox = try Lockbox(keyPrefix: "com.example.configured", backend: backend)
        _ = try await backend.async { try $0.setPasscode(.value("1234"), strength: .interactive) }
        try await lockbox.archiveObject(secret, forKey: "api.secret", accessibility: .always)
        let before = try files(store)
        try await lockbox.archiveObject(secret, forKey: "api.key", accessibility: .always)
        let damaged = try #require(try files(store).subtracting(before).first)
        try await lockbox.archiveObject(secret, forKey: "database.password", accessibility: .whenUnlocked)
        var bytes = try Data(contentsOf: URL(filePath: damaged))
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: URL(filePath: damaged))
        try await backend.async { try $0.lock(includingAfterFirstUnlock: true) }

        let keys = ["api.secret", "api.token", "api.none", "database.password", "api.key"]
        let output = try await output(store, keys)
        expect(output, "database.host", ["file.example.com"])
        expect(output, "api.secret", ["a value", "gives a value"])
        expect(output, "api.token", ["a value", "gives a value"])  // the file's
        expect(output, "api.none", ["absent", "gives nil", "throws ConfigError"])
        expect(output, "database.password", ["locked: ask", "gives nil", "throws LockboxError"])
        expect(output, "api.key", ["was tampered with", "gives nil", "throws LockboxError"])
    }

    /// The environment goes before the store, and the store before the file.
    @Test func theEnvironmentGoesFirst() async throws {
        let store = try TestStore(.files, prefix: "com.example.configured")
        try await store.lockbox.archiveObject("store.example.com", forKey: "database.host")
        expect(try await output(store, []), "database.host", ["store.example.com"])
        let environment = ["DATABASE_HOST": "environment.example.com"]
        expect(try await output(store, [], environment), "database.host", ["environment.example.com"])
        try await store.lockbox.removeObject(forKey: "database.host")
        expect(try await output(store, []), "database.host", ["file.example.com"])
    }

    private func files(_ store: TestStore) throws -> Set<String> {
        let folder = "\(store.folder)/store"
        return Set(try FileManager.default.subpathsOfDirectory(atPath: folder).map { "\(folder)/\($0)" })
    }
}
