import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// The process-wide default and the environment. Each test is a process of its own: the state is global.
@Suite struct DefaultTests {
    @Test func staticMethodsNeedAPrefix() async {
        await #expect(processExitsWith: .success) { try GlobalState.missingPrefix() }
    }

    @Test func staticMethodsDoWhatTheInstanceDoes() async {
        await #expect(processExitsWith: .success) { try GlobalState.staticMethods() }
    }

    @Test func staticMethodsAreThereForAsyncCode() async {
        await #expect(processExitsWith: .success) { try await GlobalState.asyncStaticMethods() }
    }

    @Test func environmentNamesPrefixAndFolder() async throws {
        let store = try TestStore()
        await #expect(processExitsWith: .success) { [directory = store.directory as String] in
            try GlobalState.environment(directory)
        }
        #expect(try readBack(store) == "secret")
    }

    private func readBack(_ store: TestStore) throws -> String? {
        try store.lockbox("com.example.environment").unarchiveObject(forKey: "key")
    }

    @Test(arguments: [
        (["LOCKBOX_DIRECTORY": "/a", "STATE_DIRECTORY": "/b", "XDG_DATA_HOME": "/c", "HOME": "/d"], "/a"),
        (["STATE_DIRECTORY": "/b:/b2", "XDG_DATA_HOME": "/c", "HOME": "/d"], "/b/lockbox"),
        (["XDG_DATA_HOME": "/c", "HOME": "/d"], "/c/lockbox"),
        (["XDG_DATA_HOME": "relative", "HOME": "/d"], "/d/.local/share/lockbox"),
        (["HOME": "/d"], "/d/.local/share/lockbox"),
    ])
    func storeIsWhereItIsExpected(_ environment: [String: String], _ directory: String) {
        #expect(StoreLocation.standard { environment[$0] } == directory)
    }

    @Test func pathsAreAbsoluteAndEndInNoSlash() {
        #expect(Path.absolute("/a/b//") == "/a/b")
        #expect(Path.absolute("/") == "/")
        #expect(Path.absolute("a") == FileManager.default.currentDirectoryPath + "/a")
    }
}

/// What runs in a process of its own. Synchronous where the calls are meant to be: in an async function the async
/// overloads would be chosen.
private enum GlobalState {
    struct Unmet: Error {}

    static func expect(_ condition: Bool) throws {
        if !condition { throw Unmet() }
    }

    static func missingPrefix() throws {
        unsetenv("LOCKBOX_KEY_PREFIX")
        do { _ = try Lockbox.unarchiveObject(String.self, forKey: "key") } catch LockboxError.missingKeyPrefix
        { return }
        throw Unmet()
    }

    static func staticMethods() throws {
        let backend = InMemoryBackend()
        try Lockbox.configure(keyPrefix: "com.example.static", backend: backend)
        try Lockbox.archiveObject("secret", forKey: "key", accessibility: .always, label: "L")
        try expect(Lockbox.unarchiveObject(forKey: "key") == "secret")
        try expect(Lockbox.containsObject(forKey: "key"))
        try expect(Lockbox.attributes(forKey: "key")?.label == "L")
        try Lockbox.setAccessibility(.afterFirstUnlock, forKey: "key")
        try expect(Lockbox.allAttributes()["key"]?.accessibility == .afterFirstUnlock)
        try expect(Lockbox.allKeys() == ["key"])
        try expect(Lockbox.removeExpired() == 0)

        let instance = try backend.lockbox("com.example.static")
        try expect(instance.unarchiveObject(forKey: "key") == "secret")
        try Lockbox.removeObject(forKey: "key")
        try expect(!instance.containsObject(forKey: "key"))
        try instance.archiveObject("secret", forKey: "key")
        try Lockbox.removeAllObjects()
        try expect(instance.allKeys().isEmpty)
    }

    static func asyncStaticMethods() async throws {
        try Lockbox.configure(keyPrefix: "com.example.static", backend: InMemoryBackend())
        try await Lockbox.archiveObject("secret", forKey: "key", label: "L")
        try await expect(Lockbox.unarchiveObject(forKey: "key") == "secret")
        try await expect(Lockbox.attributes(forKey: "key")?.label == "L")
        try await Lockbox.setAccessibility(.always, forKey: "key")
        try await expect(Lockbox.allAttributes()["key"]?.accessibility == .always)
        try await expect(Lockbox.allKeys() == ["key"])
        try await expect(Lockbox.removeExpired() == 0)
        try await Lockbox.removeObject(forKey: "key")
        try await expect(!Lockbox.containsObject(forKey: "key"))
        try await Lockbox.removeAllObjects()
    }

    static func environment(_ directory: String) throws {
        setenv("LOCKBOX_KEY_PREFIX", "com.example.environment", 1)
        setenv("LOCKBOX_DIRECTORY", directory, 1)
        try Lockbox.archiveObject("secret", forKey: "key")
        try expect(Lockbox.default.keyPrefix == "com.example.environment")
        try expect(access("\(directory)/keybag", F_OK) == 0)
    }
}
