import Foundation
import Lockbox
import Testing

/// Stores whose device key is kept elsewhere.
@Suite struct DeviceKeyTests {
    let sandbox: Sandbox
    let key: String

    init() throws {
        sandbox = try Sandbox()
        key = try sandbox.file("key", String(repeating: "k", count: 32))
    }

    private func makeStore() throws {
        let outcome = try sandbox.lockbox("set", "k", "--device-key-file", key, text: "v")
        try #require(outcome.status == 0, "\(outcome.error)")
    }

    private func get(_ options: String...) throws -> Outcome {
        try sandbox.execution(["get", "k"] + options).run()
    }

    @Test func theKeyIsNotInTheStore() throws {
        try makeStore()
        #expect(!FileManager.default.fileExists(atPath: "\(sandbox.store)/device-key"))
        #expect(try get("--device-key-file", key).output == "v")
        let backend = EncryptedFileBackend(directory: sandbox.store, deviceKey: .file(key))
        let library = try Lockbox(keyPrefix: "lockbox", backend: backend)
        #expect(try library.unarchiveObject(String.self, forKey: "k") == "v")
    }

    @Test func everyCommandThatOpensTheStoreTakesIt() throws {
        try makeStore()
        let passcode = try sandbox.file("passcode", "correct horse\n")
        for arguments in [
            ["set", "other"], ["get", "k"], ["list"], ["info", "k"], ["change", "k", "--label", "l"],
            ["copy", "k", "copy"], ["remove", "copy"], ["status"], ["slots"], ["verify"],
            ["export", "\(sandbox.home)/backup", "--passphrase-file", passcode, "--strength", "interactive"],
            ["import", "\(sandbox.home)/backup", "--passphrase-file", passcode],
            ["rotate"], ["exec", "--", "true"], ["git-credential", "get"], ["accept-restored"],
            ["passcode", "set", "--new-passcode-file", passcode, "--strength", "interactive"],
            ["lock"], ["passcode", "remove", "--passcode-file", passcode], ["clear", "--yes"],
        ] {
            var execution = sandbox.execution(arguments)
            execution.arguments.insert(
                contentsOf: ["--device-key-file", key],
                at: arguments.first == "passcode" ? 2 : 1
            )
            execution.input = Data("protocol=https\nhost=h\n\n".utf8)
            let outcome = try execution.run()
            #expect(outcome.status == 0, "\(arguments): \(outcome.error)")
        }
    }

    @Test func withoutTheKeyItIsSaidWhatToDo() throws {
        try makeStore()
        let outcome = try get()
        #expect(outcome.status == 3 && outcome.output == "" && outcome.error.contains("--device-key-file"))
        #expect(outcome.error.contains("\(sandbox.store)/device-key is missing"))
    }

    @Test func aWrongKeyIsAnError() throws {
        try makeStore()
        let wrong = try sandbox.file("wrong", String(repeating: "w", count: 32))
        let other = try get("--device-key-file", wrong)
        #expect(other.status == 3 && other.output == "")
        #expect(other.error.contains("The device key (\(wrong)) does not belong to this store"))
        let short = try get("--device-key-file", try sandbox.file("short", "hunter2"))
        #expect(short.status == 3 && short.error.contains("it has 7 bytes; at least 32 are required"))
        #expect(!short.error.contains("hunter2"))
        let none = try get("--device-key-file", "\(sandbox.home)/none")
        #expect(none.status == 74 && none.error.contains("\(sandbox.home)/none"))
        #expect(try get("--device-key-file", "").status == 64)
        let stored = try sandbox.lockbox("set", "k", "--device-key-file", wrong, text: "new")
        #expect(stored.status == 3)
        #expect(try get("--device-key-file", key).output == "v")
    }

    @Test func severalKeysAreTriedInOrder() throws {
        let second = try sandbox.file("second", String(repeating: "s", count: 32))
        let none = "\(sandbox.home)/none"
        let both = ["--device-key-file", second, "--device-key-file", key]
        var first = sandbox.execution(["set", "k"] + both)
        first.input = Data("v".utf8)
        #expect(try first.run().status == 0)
        #expect(try get("--device-key-file", second).output == "v", "a new store gets the first")
        #expect(try get("--device-key-file", key).status == 3)
        #expect(try get("--device-key-file", none, "--device-key-file", second).output == "v")
    }

    @Test func theEnvironmentAndCredentials() throws {
        try makeStore()
        sandbox.environment["LOCKBOX_DEVICE_KEY_FILE"] = key
        #expect(try get().output == "v")
        let wrong = try sandbox.file("wrong", String(repeating: "w", count: 32))
        #expect(try get("--device-key-file", wrong).status == 3, "the option comes first")
        sandbox.environment["LOCKBOX_DEVICE_KEY_FILE"] = nil
        #expect(try get("--device-key-credential", "key").status == 3)
        sandbox.environment["CREDENTIALS_DIRECTORY"] = sandbox.home
        #expect(try get("--device-key-credential", "key").output == "v")
        #expect(
            try get("--device-key-credential", "key", "--device-key-file", wrong).output == "v"
        )
    }

    // MARK: A new key

    @Test func rotationReplacesIt() throws {
        try makeStore()
        let new = try sandbox.file("new", String(repeating: "n", count: 32))
        let same = try sandbox.lockbox("rotate", "--device-key-file", key)
        #expect(same.status == 0 && same.output == "items resealed: 1\n")
        #expect(same.error.contains("The device key is kept elsewhere and is the same as before"))
        let rotate = ["rotate", "--device-key-file", key, "--new-device-key-file"]
        let bad = try sandbox.execution(rotate + [try sandbox.file("short", "short")]).run()
        #expect(bad.status == 3 && bad.error.contains("at least 32 are required"))
        let rotated = try sandbox.execution(rotate + [new]).run()
        #expect(rotated.status == 0 && rotated.output == "items resealed: 1\n")
        #expect(rotated.error.contains("The device key is new. From now on, use --device-key-file \(new).\n"))
        #expect(try get("--device-key-file", new).output == "v")
        #expect(try get("--device-key-file", key).status == 3)
        #expect(try get("--device-key-file", new, "--device-key-file", key).output == "v")
    }

    @Test func aStoredKeyMovesOut() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let rotated = try sandbox.lockbox("rotate", "--new-device-key-file", key)
        #expect(rotated.status == 0 && !FileManager.default.fileExists(atPath: "\(sandbox.store)/device-key"))
        #expect(try get().status == 3)
        #expect(try get("--device-key-file", key).output == "v")
    }

    @Test func thereHasToBeAStore() throws {
        let outcome = try sandbox.lockbox("rotate", "--new-device-key-file", key)
        #expect(outcome.status == 1 && outcome.error.contains("There is no store yet"))
        #expect(!FileManager.default.fileExists(atPath: sandbox.store))
    }

    @Test func keysAreCompleted() throws {
        try makeStore()
        var execution = sandbox.execution([
            "---completion", "get", "--", "positional@0", "4", "1", "lockbox", "get", "--device-key-file",
            key,
            "k",
        ])
        execution.environment["SAP_SHELL"] = "fish"
        #expect(try execution.run().output == "k\n")
    }
}
