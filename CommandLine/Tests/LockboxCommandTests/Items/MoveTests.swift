import Foundation
import Lockbox
import Testing

/// `lockbox move` and `lockbox copy`.
@Suite struct MoveTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func attributes(_ key: String, _ prefix: String = "lockbox") throws -> ItemAttributes? {
        try sandbox.library(prefix).attributes(forKey: key)
    }

    @Test(arguments: ["move", "copy"]) func valueAndAttributesStay(_ command: String) throws {
        try sandbox.lockbox(
            "set",
            "old",
            "--class",
            "always",
            "--expires",
            "7d",
            "--label",
            "L",
            "--comment",
            "C",
            "--attribute",
            "a=b",
            text: "v"
        )
        let before = try #require(try attributes("old"))
        let outcome = try sandbox.lockbox(command, "old", "new")
        #expect(outcome.status == 0 && outcome.output == "" && outcome.error == "")
        #expect(try sandbox.lockbox("get", "new").output == "v")
        #expect(try attributes("new") == before)
        #expect(try sandbox.lockbox("get", "old").status == (command == "move" ? 1 : 0))
    }

    @Test(arguments: ["move", "copy"]) func anotherItemIsReplacedOnlyOnRequest(_ command: String) throws {
        for key in ["old", "new"] { try sandbox.lockbox("set", key, text: "of \(key)") }
        let refused = try sandbox.lockbox(command, "old", "new")
        #expect(refused.status == 4 && refused.output == "" && refused.error.contains("\"new\""))
        #expect(refused.error.contains("Use --replace to overwrite it."))
        #expect(try sandbox.lockbox("get", "old").output == "of old")
        #expect(try sandbox.lockbox("get", "new").output == "of new")
        #expect(try sandbox.lockbox(command, "old", "new", "--replace").status == 0)
        #expect(try sandbox.lockbox("get", "new").output == "of old")
        #expect(try sandbox.lockbox("get", "old").status == (command == "move" ? 1 : 0))
    }

    @Test(arguments: [
        ["copy"], ["copy", "k"], ["copy", "k", "n", "--all"],
        ["copy", "--to-store", "x", "--to-prefix", "p"],
    ])
    func whatIsNoCopy(_ arguments: [String]) throws {
        try sandbox.lockbox("set", "k", text: "v")
        let outcome = try sandbox.execution(arguments).run()
        #expect(outcome.status == 64 && outcome.output == "", "\(outcome.error)")
    }

    /// Both stores have passcodes.
    @Test func intoAnotherFolder() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let passcode = try sandbox.setPasscode()
        let other = "\(sandbox.home)/other"
        let newPasscode = try sandbox.setPasscode("another", inFile: "other-passcode", "--directory", other)
        let copy = ["copy", "k", "--to-store", other, "--passcode-file", passcode]
        #expect(try sandbox.execution(copy).run().status == 2)
        #expect(try sandbox.execution(copy + ["--to-passcode-file", newPasscode]).run().status == 0)
        let get = ["get", "k", "--directory", other, "--passcode-file", newPasscode]
        #expect(try sandbox.execution(get).run().output == "v")
    }

    /// Whether something is there is decided by today's date, and not by the item's, which is older.
    @Test func intoAnotherFolderWithAllDates() throws {
        let other = try Lockbox(
            keyPrefix: "lockbox",
            backend: EncryptedFileBackend(directory: "\(sandbox.home)/other")
        )
        func store(_ key: String, _ text: String, _ age: TimeInterval, expires: Date? = nil) throws
            -> StoredItem
        {
            try StoredItem(
                key: ItemKey(prefix: "lockbox", key: key),
                value: ArchivedValue(data: Data(text.utf8), format: .data),
                created: Date(timeIntervalSinceNow: -age - 60),
                modified: Date(timeIntervalSinceNow: -age),
                expires: expires
            )
        }
        let day: TimeInterval = 86_400
        let mine = try store("k", "mine", 3 * day)
        try sandbox.library().backend.write(mine, policy: .addOnly)
        let copy = ["copy", "k", "--to-store", "\(sandbox.home)/other"]
        let expired = try store("k", "expired", 2 * day, expires: Date(timeIntervalSinceNow: -day))
        try other.backend.write(expired, policy: .addOnly)
        #expect(try sandbox.execution(copy).run().status == 0)
        #expect(try other.backend.item(for: mine.key, now: nil) == mine)
        #expect(try sandbox.execution(copy).run().status == 0, "a copy that was interrupted is repeated")

        try other.backend.write(store("k", "theirs", 4 * day), policy: .replace)
        let refused = try sandbox.execution(copy).run()
        #expect(refused.status == 4 && refused.error.contains("Use --replace to overwrite it."))
        #expect(try other.backend.item(for: mine.key, now: nil)?.value != mine.value)
        #expect(try sandbox.execution(copy + ["--replace"]).run().status == 0)
        #expect(try other.backend.item(for: mine.key, now: nil) == mine)
    }

    /// Only with --replace.
    @Test func aDamagedItemInAnotherFolder() throws {
        try sandbox.lockbox("set", "other", text: "v")
        try FileManager.default.copyItem(atPath: sandbox.store, toPath: "\(sandbox.home)/other")
        let there = ["--directory", "\(sandbox.home)/other"]
        try sandbox.damage(.ofTheValue) { try sandbox.lockbox("set", "bad", text: "theirs") }
        let copy = ["copy", "other", "bad", "--to-store", sandbox.store] + there
        #expect(try sandbox.execution(copy).run().status == 3)
        #expect(try sandbox.execution(copy + ["--replace"]).run().status == 0)
        #expect(try sandbox.lockbox("get", "bad").output == "v")
        #expect(try sandbox.execution(["list"] + there).run().output == "other\n")
    }

    /// They may be readable, and the other store be what fails.
    @Test func whatCouldNotBeCopiedIsCounted() throws {
        let other = "\(sandbox.home)/other"
        try sandbox.lockbox("set", "good", text: "v")
        try FileManager.default.copyItem(atPath: sandbox.store, toPath: other)
        try sandbox.lockbox("set", "bad", "--directory", other, text: "mine")
        try sandbox.damage(.ofTheValue) { try sandbox.lockbox("set", "bad", text: "theirs") }
        let outcome = try sandbox.execution(["copy", "--to-store", sandbox.store, "--directory", other]).run()
        #expect(outcome.status == 3 && outcome.output.contains("items copied: 1"))
        #expect(outcome.error.contains("Items that could not be copied: 1."), "\(outcome.error)")
    }

    @Test(arguments: ["move", "copy"]) func betweenPrefixes(_ command: String) throws {
        try sandbox.lockbox("set", "k", "--prefix", "a", text: "v")
        #expect(try sandbox.lockbox(command, "k", "k", "--prefix", "a", "--to-prefix", "b").status == 0)
        #expect(try sandbox.lockbox("get", "k", "--prefix", "b").output == "v")
        #expect(try sandbox.lockbox("get", "k", "--prefix", "a").status == (command == "move" ? 1 : 0))
        #expect(try sandbox.lockbox("list").output == "")
        sandbox.environment["LOCKBOX_KEY_PREFIX"] = "b"
        #expect(try sandbox.lockbox(command, "k", "other").status == 0)
        #expect(try sandbox.lockbox("get", "other", "--prefix", "b").output == "v")
    }

    @Test(arguments: ["move", "copy"]) func whatCannotBeMoved(_ command: String) throws {
        let absent = try sandbox.lockbox(command, "none", "new")
        #expect(absent.status == 1 && absent.error.contains("\"none\""))
        try sandbox.library().archiveObject(
            "v",
            forKey: "gone",
            options: WriteOptions(expires: .at(Date(timeIntervalSinceNow: -1)))
        )
        #expect(try sandbox.lockbox(command, "gone", "new").status == (command == "move" ? 0 : 1))
        #expect(try sandbox.lockbox("list", "--expired").output == (command == "move" ? "new\n" : "gone\n"))
        #expect(try sandbox.lockbox(command, "none").status == 64)
        #expect(try sandbox.lockbox(command, "none", "").status == 64)
        #expect(try sandbox.lockbox(command, "none", "new", "--to-prefix", "").status == 64)
        try sandbox.damage(.ofTheValue) { try sandbox.lockbox("set", "bad", text: "hunter2") }
        let damaged = try sandbox.lockbox(command, "bad", "new")
        #expect(damaged.status == 3 && !damaged.error.contains("hunter2"))
        #expect(try sandbox.lockbox("list").output == "bad\n")
    }

    /// A key that is its own new one stays.
    @Test(arguments: ["move", "copy"]) func toItsOwnPlace(_ command: String) throws {
        try sandbox.lockbox("set", "k", text: "v")
        #expect(try sandbox.lockbox(command, "k", "k").status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "v")
    }

    @Test(arguments: ["move", "copy"]) func aLockedStore(_ command: String) throws {
        try sandbox.lockbox("set", "k", text: "v")
        let passcode = try sandbox.setPasscode()
        let locked = try sandbox.lockbox(command, "k", "new")
        #expect(locked.status == 2 && locked.output == "")
        #expect(try sandbox.lockbox("list").output == "k\n")
        #expect(try sandbox.lockbox(command, "k", "new", "--passcode-file", passcode).status == 0)
        #expect(try sandbox.lockbox("list").output == (command == "move" ? "new\n" : "k\nnew\n"))
    }

    @Test func helpNamesTheOptions() throws {
        for command in ["move", "copy"] {
            let help = try sandbox.lockbox(command, "--help")
            #expect(help.status == 0)
            for option in ["--to-prefix", "--replace", "--prefix"] { #expect(help.output.contains(option)) }
            #expect(try sandbox.lockbox("--help").output.contains("\n  \(command) "))
        }
    }
}
