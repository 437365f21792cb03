import Foundation
import Testing

/// Where a store is made, and where it is not.
@Suite struct StorePlaceTests {
    let sandbox: Sandbox
    /// The current folder of each command.
    private var folder: String { "\(sandbox.home)/current" }

    init() throws {
        sandbox = try Sandbox()
        sandbox.environment["LOCKBOX_DIRECTORY"] = nil
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    /// Runs a line of a shell in the current folder. `$L` is the command.
    private func shell(_ line: String) throws -> Outcome {
        sandbox.environment["L"] = Sandbox.executable
        sandbox.environment["C"] = folder
        return try sandbox.execution(["-c", "cd \"$C\" && \(line)"], executable: "/bin/sh").run()
    }

    private func expectRefusal(_ line: String, _ reason: String) throws {
        let outcome = try shell("echo v | \(line)")
        #expect(outcome.status == 64 && outcome.error.contains(reason), "\(line): \(outcome.error)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [], "\(line)")
    }

    @Test(arguments: [
        "a.example:2379/x", "etcd:/a.example/x", "https://a.example/x", "a.example/x", "store", "~you/store",
        "...",
    ])
    func whatIsNoAddressIsRefused(_ address: String) throws {
        try expectRefusal("LOCKBOX_STORE='\(address)' $L set k", "is not a store's address")
        try expectRefusal("$L set k --store '\(address)'", "is not a store's address")
        try expectRefusal("$L copy k --to-store '\(address)'", "is not a store's address")
    }

    @Test(arguments: ["a.example:2379/x", "etcd:/a.example/x", "etcd://a.example/x", "file:///x"])
    func anAddressIsNoFolder(_ address: String) throws {
        for line in ["LOCKBOX_DIRECTORY='\(address)' $L set k", "$L set k --directory '\(address)'"] {
            try expectRefusal(line, "looks like an address")
        }
    }

    @Test func aFileOfAnotherProgramIsNoStore() throws {
        let file = try sandbox.file("other", "theirs")
        try expectRefusal("LOCKBOX_STORE='\(file)' $L set k", "is a file, and a store is a folder")
        #expect(try sandbox.text(file) == "theirs")
    }

    @Test func relativeFoldersBeginWithADot() throws {
        for (address, path) in [("./s", "current/s"), ("../s", "s"), (".", "current"), ("~/t", "t")] {
            let outcome = try shell("echo v | $L set k --store '\(address)'")
            #expect(outcome.status == 0, "\(outcome.error)")
            #expect(FileManager.default.fileExists(atPath: "\(sandbox.home)/\(path)/keybag"))
        }
    }

    @Test func theHomeFolderIsExpanded() throws {
        for line in ["LOCKBOX_DIRECTORY='~/a' $L set k", "$L set k --directory='~/a'"] {
            let outcome = try shell("echo v | \(line)")
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        #expect(FileManager.default.fileExists(atPath: "\(sandbox.home)/a/keybag"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == [])
        try expectRefusal("$L set k --directory='~you/a'", "another user")
    }

    /// Two homes must not be one.
    @Test func whatIsNotUTF8IsRefused() throws {
        for variable in ["HOME", "LOCKBOX_DIRECTORY", "LOCKBOX_STORE", "LOCKBOX_KEY_PREFIX"] {
            try expectRefusal("env \(variable)=\"$(printf '/tmp/home-\\377')\" $L set k", "is not UTF-8")
        }
    }

    @Test func homesThatAreNoPlaceAreRefused() throws {
        try expectRefusal("HOME=relative $L set k", "not an absolute path")
        guard geteuid() == 0 else { return }
        let unknown = "setpriv --reuid 54321 --clear-groups env -u HOME"
        try expectRefusal("\(unknown) $L set k", "set LOCKBOX_DIRECTORY")
    }

    @Test func aRemovedCurrentFolderIsRefused() throws {
        let outcome = try shell(
            "mkdir gone && cd gone && rmdir ../gone && echo v | $L set k --directory secrets"
        )
        #expect(
            outcome.status == 64 && outcome.error.contains("the current folder was removed"),
            "\(outcome.error)"
        )
    }

    @Test func withoutArgumentsItSaysHowToUseIt() throws {
        let outcome = try sandbox.lockbox()
        #expect(outcome.status == 64 && outcome.output == "" && outcome.error.contains("lockbox --help"))
    }
}
