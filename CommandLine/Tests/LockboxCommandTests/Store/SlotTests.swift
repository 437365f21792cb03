import Foundation
import Lockbox
import Testing

@testable import LockboxCommand

/// What unlocks a store besides its passcode.
@Suite struct SlotTests {
    let sandbox: Sandbox
    let passcode: String
    let key: String

    init() throws {
        sandbox = try Sandbox()
        try sandbox.lockbox("set", "k", text: "hunter2")
        passcode = try sandbox.setPasscode()
        key = try sandbox.file("key", String(repeating: "k", count: 32))
    }

    private struct Slot: Decodable { let id, kind, label, created, opens: String }

    private func slots() throws -> [Slot] {
        try JSONDecoder().decode([Slot].self, from: sandbox.lockbox("slots", "--json").bytes)
    }

    private func recoveryCode(_ options: String...) throws -> String {
        try sandbox.recoveryCode(options, passcode: passcode)
    }

    private func addKey(_ options: String...) throws -> Outcome {
        try sandbox.execution(
            ["slots", "add", "key", "--key-file", key, "--label", "web", "--passcode-file", passcode]
                + options
        ).run()
    }

    /// Runs `body` after an unlock with `options`. Where the kernel keeps no keys, it is refused.
    private func unlocked(_ options: [String], _ body: () throws -> Void) throws {
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        let outcome = try sandbox.execution(["unlock"] + options).run()
        guard hasKernelKeyring else {
            #expect(outcome.status == 2 && outcome.error.contains("kernel"))
            return
        }
        #expect(outcome.status == 0, "\(outcome.error)")
        try body()
    }

    // MARK: Lists

    @Test func aListOfSlots() throws {
        _ = try recoveryCode("--label", "in the safe")
        #expect(try addKey().output == "items resealed: 1\nThe key unlocks the afterFirstUnlock classes.\n")
        let all = try slots()
        #expect(all.map(\.kind) == ["passcode", "recovery-code", "key"])
        #expect(all.map(\.label) == ["", "in the safe", "web"])
        #expect(all.map(\.opens) == ["all", "all", "afterFirstUnlock"])
        #expect(all.allSatisfy { $0.id.wholeMatch(of: /[0-9a-f]{32}/) != nil })
        #expect(all.allSatisfy { $0.created.wholeMatch(of: /20..-..-..T..:..:..Z/) != nil })
        let table = try sandbox.lockbox("slots").output.split(separator: "\n")
        #expect(table.count == 4 && table[0].hasPrefix("SLOT          KIND           CREATED"))
        #expect(table[3].contains(all[2].id.prefix(12)) && table[3].hasSuffix("  afterFirstUnlock  web"))
        #expect(try sandbox.lockbox("slots", "list").output == table.joined(separator: "\n") + "\n")
        #expect(try sandbox.lockbox("status").output.contains(table.joined(separator: "\n")))
        struct Status: Decodable { let slots: [Slot] }
        let status = try JSONDecoder().decode(Status.self, from: sandbox.lockbox("status", "--json").bytes)
        #expect(status.slots.map(\.id) == all.map(\.id))
    }

    @Test func aStoreWithoutSlots() throws {
        sandbox.environment["LOCKBOX_DIRECTORY"] = "\(sandbox.home)/other"
        let outcome = try sandbox.lockbox("slots")
        #expect(outcome.status == 0 && outcome.output == "" && outcome.error.contains("no slots"))
        #expect(try sandbox.lockbox("slots", "--json").output == "[\n\n]\n")
        #expect(!FileManager.default.fileExists(atPath: "\(sandbox.home)/other"))
    }

    // MARK: Keys

    @Test func aKeyNeedsARecoveryCode() throws {
        let outcome = try addKey()
        #expect(outcome.status == 4 && outcome.error.contains("add a recovery code first"))
        #expect(try slots().count == 1)
    }

    @Test func aKeyUnlocksForAService() throws {
        _ = try recoveryCode()
        try sandbox.lockbox(
            "set",
            "a",
            "--class",
            "afterFirstUnlock",
            "--passcode-file",
            passcode,
            text: "for services"
        )
        #expect(try addKey().status == 0)
        try unlocked(["--key-file", key]) { () throws in
            #expect(try sandbox.lockbox("get", "a").output == "for services")
            #expect(try sandbox.lockbox("get", "k").status == 2)
        }
        #expect(try addKey("--all-classes").status == 0)
        sandbox.environment["CREDENTIALS_DIRECTORY"] = sandbox.home
        try unlocked(["--key-credential", "key"]) { () throws in
            #expect(try sandbox.lockbox("get", "a").output == "for services")
            #expect(try sandbox.lockbox("get", "k").output == "hunter2", "the slot that opens most is taken")
        }
        let wrong = try sandbox.file("wrong", String(repeating: "w", count: 32))
        let refused = try sandbox.lockbox("unlock", "--key-file", wrong)
        #expect(
            refused.status == 2
                && refused.error
                    == "lockbox: The key is wrong. Check it and try again. Nothing was changed.\n"
        )
        let short = try sandbox.lockbox("unlock", "--key-file", sandbox.file("short", "s"))
        #expect(short.status == 3 && short.error.contains("The key (\(sandbox.home)/short) cannot be used"))
    }

    @Test(arguments: [
        ["unlock", "--key-file", "f", "--recovery-code"],
        ["unlock", "--recovery-code", "--recovery-code-file", "f"],
        ["unlock", "--recovery-code-file", "f", "--passcode-file", "f"],
        ["slots", "add", "key", "--label", "l"],
        ["slots", "add", "key", "--key-file", "f"],
        ["slots", "remove", "abc"], ["slots", "remove", "zzzz"],
        ["passcode", "recovery"], ["passcode", "recovery", "--output-fd", "3"],
        ["passcode", "recovery", "--output-fd", "0", "--confirm-file", "f"],
    ])
    func usage(_ arguments: [String]) throws {
        let outcome = try sandbox.execution(arguments).run()
        #expect(outcome.status == 64 && outcome.output == "", "\(outcome.error)")
        #expect(try slots().count == 1)
    }

    // MARK: Secrets that are not enough

    /// It is in a file that a service can read, and the store may have been left unlocked.
    @Test func aServicesKeyDoesNotStandInForThePasscode() throws {
        let code = try recoveryCode()
        #expect(try addKey().status == 0)
        let before = try slots()
        let changes = [
            ["slots", "remove", before[2].id], ["slots", "remove", before[1].id],
            ["passcode", "recovery", "--output-fd", "3", "--confirm-file", code],
        ]
        try unlocked(["--passcode-file", passcode]) { () throws in
            for change in changes {
                var execution = sandbox.execution(change + ["--key-file", key])
                let pipe = try FullPipe()
                execution.inherited = [3: pipe.writing]
                let outcome = try execution.run()
                #expect(outcome.status == 2, "\(change): \(outcome.error)")
                #expect(outcome.error.contains("a slot that opens all classes"), "\(outcome.error)")
            }
        }
        #expect(try slots().map(\.id) == before.map(\.id))
    }

    /// Somebody with the device key may have put another store in its place.
    @Test func aSecretForAStoreWithoutSuchASlotIsAnError() throws {
        let open = try Sandbox()
        try open.lockbox("set", "k", text: "forged")
        let file = try open.file("secret", RecoveryCode().text)
        for secret in [["--key-file", file], ["--recovery-code-file", file]] {
            for arguments in [["get", "k"], ["set", "k"], ["exec", "--", "echo", "ran"]] {
                var execution = open.execution(arguments)
                execution.arguments.insert(contentsOf: secret, at: 1)
                execution.input = Data("new".utf8)
                let outcome = try execution.run()
                #expect(outcome.status == 2 && outcome.output == "", "\(arguments): \(outcome.error)")
                #expect(outcome.error.contains("was given, but the store \(open.store) has none"))
            }
        }
        #expect(try open.lockbox("get", "k").output == "forged")
        let refused = try open.lockbox("get", "k", "--require-slot")
        #expect(refused.status == 3 && refused.output == "", "\(refused.error)")
        #expect(try sandbox.lockbox("get", "k", "--require-slot", "--passcode-file", passcode).status == 0)
    }

    /// What is in the kernel must not stay because the store is refused.
    @Test func aStoreWithoutItsDeviceKeyCanBeLocked() throws {
        try unlocked(["--passcode-file", passcode]) { () throws in
            let (deviceKey, aside) = ("\(sandbox.store)/device-key", "\(sandbox.home)/aside")
            try FileManager.default.moveItem(atPath: deviceKey, toPath: aside)
            #expect(try sandbox.lockbox("get", "k").status == 3)
            let outcome = try sandbox.lockbox("lock", "--all")
            #expect(outcome.status == 0, "\(outcome.error)")
            try FileManager.default.moveItem(atPath: aside, toPath: deviceKey)
            #expect(try sandbox.lockbox("get", "k").status == 2)
        }
    }

    // MARK: Removing

    @Test func aSlotIsRemovedByTheBeginningOfItsID() throws {
        let code = try recoveryCode()
        #expect(try addKey().status == 0)
        let all = try slots()
        let other = all[0].id.hasPrefix("0000") ? "1111" : "0000"
        let none = try sandbox.lockbox("slots", "remove", other, "--passcode-file", passcode)
        #expect(none.status == 1 && none.error.contains("no slot \(other). `lockbox slots` shows"))
        let last = try sandbox.lockbox("slots", "remove", all[1].id, "--passcode-file", passcode)
        #expect(last.status == 4 && last.error.contains("keep a recovery code"))
        let own = try sandbox.lockbox("slots", "remove", all[0].id, "--passcode-file", passcode)
        #expect(own.status == 4 && own.error.contains("lockbox passcode remove"))
        let id = String(all[2].id.prefix(4)).uppercased()
        #expect(try sandbox.lockbox("slots", "remove", id).status == 2, "it needs the passcode")
        let removed = try sandbox.lockbox("slots", "remove", id, "--passcode-file", passcode)
        #expect(removed.output == "items resealed: 1\nThe slot \(all[2].id) (key) is removed.\n")
        #expect(try slots().map(\.id) == all[..<2].map(\.id))
        let gone = try sandbox.lockbox("unlock", "--key-file", key)
        #expect(
            gone.status == 2
                && gone.error.contains("A key was given, but the store \(sandbox.store) has none")
        )
        // Without its passcode, the store is unlocked by the code alone.
        #expect(
            try sandbox.lockbox("passcode", "remove", "--keep-slots", "--passcode-file", passcode).status == 0
        )
        let locked = try sandbox.lockbox("get", "k")
        #expect(locked.status == 2 && locked.output == "")
        let open = try sandbox.lockbox("slots", "remove", all[1].id, "--recovery-code-file", code)
        #expect(open.status == 0 && open.error.contains("It is always open"))
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
    }

    @Test func theBeginningMustBeOfOneSlotOnly() throws {
        func slot(_ id: String) throws -> UnlockSlot {
            let json = #"{"id": "\#(id)", "kind": 3, "label": "", "created": 0, "opensAllClasses": true}"#
            return try JSONDecoder().decode(UnlockSlot.self, from: Data(json.utf8))
        }
        let all = [try slot("abcd1"), try slot("abcd2"), try slot("ffff")]
        #expect(try SlotsCommand.slot("ABCD2", of: all).id == "abcd2")
        let failure = #expect(throws: Failure.self) { try SlotsCommand.slot("abcd", of: all) }
        #expect(failure?.status == .conflict)
        #expect(failure?.message.hasPrefix("2 slots have IDs that begin with abcd") == true)
        #expect(throws: LockboxError.slotNotFound(slot: "0000")) { try SlotsCommand.slot("0000", of: all) }
    }

    // MARK: Recovery codes

    @Test func aRecoveryCodeStandsInForTheForgottenPasscode() throws {
        let code = try recoveryCode()
        try unlocked(["--recovery-code-file", code]) { () throws in
            #expect(try sandbox.lockbox("get", "k").output == "hunter2")
        }
        let new = try sandbox.file("new", "battery staple")
        let change = [
            "passcode", "change", "--new-passcode-file", new, "--strength", "interactive",
            "--recovery-code-file",
        ]
        let mistyped = try sandbox.file("mistyped", String(repeating: "0", count: 27) + "1")
        let none = try sandbox.execution(change + [mistyped]).run()
        #expect(none.status == 2 && none.error.contains("a character of the recovery code is mistyped"))
        let other = try sandbox.file("other", RecoveryCode().text)
        let wrong = try sandbox.execution(change + [other]).run()
        #expect(
            wrong.status == 2
                && wrong.error
                    == "lockbox: The recovery code is wrong. Check it and try again. Nothing was changed.\n"
        )
        #expect(try sandbox.execution(change + [code]).run().status == 0)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", new).output == "hunter2")
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).status == 2)
    }

    @Test func aRecoveryCodeIsShownOnceAndTypedBack() throws {
        var code = ""
        let read: (Execution.Answer.Asked) -> Data = { asked in
            code = asked.screen.firstMatch(of: /([0-9A-Z]{4}-){6}[0-9A-Z]{4}/).map { String($0.0) } ?? ""
            return Data("\(code.lowercased().replacingOccurrences(of: "-", with: " "))\n".utf8)
        }
        let outcome = try sandbox.lockbox(
            "passcode",
            "recovery",
            typing: [
                .init("Passcode of the store: ", "correct horse\n"),
                .init("Type it back: ", "something else\n"), .init("Type it back: ", read),
            ]
        )
        #expect(outcome.status == 0 && outcome.screen.contains("Write this recovery code down"))
        #expect(!code.isEmpty && outcome.screen.components(separatedBy: code).count == 2)
        #expect(try slots().map(\.kind) == ["passcode", "recovery-code"])
        let unlocked = try sandbox.lockbox(
            "unlock",
            "--recovery-code",
            typing: [
                .init("Recovery code: ", "\(RecoveryCode().text)\n"), .init("Recovery code: ", "\(code)\n"),
            ]
        )
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        #expect(unlocked.screen.contains("The recovery code is wrong. Try again."))
        #expect(unlocked.status == (hasKernelKeyring ? 0 : 2))
        #expect(!unlocked.screen.contains(code))
    }

    @Test func aCodeThatIsNotTypedBackIsNone() throws {
        let wrong = Execution.Answer("Type it back: ", "something else\n")
        let outcome = try sandbox.lockbox(
            "passcode",
            "recovery",
            "--passcode-file",
            passcode,
            typing: [wrong, wrong, wrong]
        )
        #expect(outcome.status == 2 && outcome.screen.contains("was not confirmed"))
        #expect(try slots().count == 1)
        let other = try sandbox.file("other", RecoveryCode().text)
        let script =
            "\(Sandbox.executable) passcode recovery --output-fd 3 --confirm-file \(other) "
            + "--passcode-file \(passcode) 3>/dev/null"
        let scripted = try sandbox.execution(["-c", script], executable: "/bin/sh").run()
        #expect(scripted.status == 2 && scripted.error.contains("is not the one shown."))
        #expect(try slots().count == 1)
    }
}
