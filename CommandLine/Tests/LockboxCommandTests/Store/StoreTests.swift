import Foundation
import Lockbox
import Testing

/// Backups, rotation and verification.
@Suite struct StoreTests {
    let sandbox: Sandbox
    let passphrase: String
    let backup: String

    init() throws {
        sandbox = try Sandbox()
        passphrase = try sandbox.file("passphrase", "tr0ub4dor\n")
        backup = "\(sandbox.home)/backup"
        for (prefix, key) in [("p", "a"), ("p", "b"), ("q", "c")] {
            try sandbox.lockbox("set", key, "--prefix", prefix, text: "of \(key)")
        }
    }

    private func export(_ more: String...) throws -> Outcome {
        let arguments = ["export", backup, "--passphrase-file", passphrase, "--strength", "interactive"]
        return try sandbox.execution(arguments + more).run()
    }

    private func importBackup(_ more: String..., passphrase: String? = nil) throws -> Outcome {
        let arguments = ["import", backup, "--passphrase-file", passphrase ?? self.passphrase]
        return try sandbox.execution(arguments + more).run()
    }

    // MARK: export and import

    @Test func aBackupGoesIntoAnotherStore() throws {
        try sandbox.lockbox("set", "mine", "--class", "alwaysThisDeviceOnly", text: "v")
        let exported = try export()
        #expect(exported.status == 0)
        #expect(
            exported.output
                == "left out because it stays on this device: lockbox mine\nitems in the backup: 3\n"
        )
        #expect(exported.error.contains("4 of 4"))  // plain lines
        sandbox.environment["LOCKBOX_DIRECTORY"] = "\(sandbox.home)/other"
        let imported = try importBackup()
        #expect(imported.status == 0 && imported.output == "items imported: 3, unchanged: 0\n")
        #expect(try sandbox.lockbox("get", "c", "--prefix", "q").output == "of c")
        #expect(try importBackup("--quiet").output == "")
        #expect(try importBackup().output == "items imported: 0, unchanged: 3\n")
    }

    @Test func onePrefixAlone() throws {
        #expect(try export("--prefix", "p").output == "items in the backup: 2\n")
        #expect(try importBackup("--prefix", "p").status == 64)
    }

    /// What is newer stays, and what cannot be replaced is named.
    @Test func aBackupMendsWhatIsDamaged() throws {
        _ = try export()
        try sandbox.lockbox("set", "c", "--prefix", "q", text: "newer")
        let items = "\(sandbox.store)/items"
        let all = try FileManager.default.subpathsOfDirectory(atPath: items)
        let records = all.filter { $0.contains("/") && !$0.hasSuffix("/lock") }
        func folder(_ record: String) -> Substring? { record.split(separator: "/").first }
        let two = records.filter { record in records.count { folder($0) == folder(record) } == 2 }
        try #require(two.count == 2)
        let (damaged, open) = ("\(items)/\(two[0])", "\(items)/\(two[1])")
        try Data("x".utf8).write(to: URL(fileURLWithPath: damaged))
        try #require(chmod(open, 0o640) == 0)
        let aside = try sandbox.file("store/quarantine", "in the way")
        let first = try importBackup()
        #expect(first.status == 3 && first.error.contains(open) && !first.error.contains(damaged))
        #expect(first.output == "kept, and differs from the backup: q c\nitems imported: 1, unchanged: 0\n")
        try FileManager.default.removeItem(atPath: aside)
        let second = try importBackup()
        #expect(second.status == 0)
        #expect(second.output == "kept, and differs from the backup: q c\nitems imported: 1, unchanged: 1\n")
        for key in ["a", "b"] {
            #expect(try sandbox.lockbox("get", key, "--prefix", "p").output == "of \(key)")
        }
        #expect(try sandbox.lockbox("get", "c", "--prefix", "q").output == "newer")
        #expect(try FileManager.default.contentsOfDirectory(atPath: aside).count == 1)
    }

    @Test func whatIsThereAlready() throws {
        #expect(try export("--quiet").error == "")
        try sandbox.lockbox("set", "a", "--prefix", "p", text: "newer")
        let refused = try importBackup("--existing", "fail")
        #expect(refused.status == 4 && refused.error.contains("Use --existing keep or --existing replace."))
        let kept = try importBackup()
        #expect(kept.output == "kept, and differs from the backup: p a\nitems imported: 0, unchanged: 2\n")
        #expect(try sandbox.lockbox("get", "a", "--prefix", "p").output == "newer")
        #expect(try importBackup("--existing", "replace").status == 0)
        #expect(try sandbox.lockbox("get", "a", "--prefix", "p").output == "of a")
    }

    @Test func aWrongPassphraseAndADamagedFile() throws {
        #expect(try export().status == 0)
        let wrong = try importBackup(passphrase: sandbox.file("wrong", "swordfish"))
        #expect(
            wrong.status == 2
                && wrong.error
                    == "lockbox: The passphrase is wrong. Check it and try again. Nothing was changed.\n"
        )
        var bytes = try Data(contentsOf: URL(fileURLWithPath: backup))
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: URL(fileURLWithPath: backup))
        #expect(try importBackup().status == 3)
        try Data("notes".utf8).write(to: URL(fileURLWithPath: backup))
        for outcome in [try importBackup(), try export()] {
            #expect(outcome.status == 4 && outcome.error.contains("is not a Lockbox backup"))
        }
        try FileManager.default.removeItem(atPath: backup)
        #expect(try importBackup().status == 74)
        #expect(try sandbox.lockbox("export", "/dev/null/none", "--passphrase-file", passphrase).status == 74)
    }

    @Test func withoutATerminalThereMustBeAFile() throws {
        let outcome = try sandbox.lockbox("export", backup)
        #expect(outcome.status == 2 && outcome.error.contains("--passphrase-file"))
        #expect(try sandbox.lockbox("import", backup).status == 2)
        #expect(!FileManager.default.fileExists(atPath: backup))
    }

    @Test func aPassphraseIsTypedTwiceAndABarIsShown() throws {
        let exported = try sandbox.lockbox(
            "export",
            backup,
            "--strength",
            "interactive",
            typing: [.init("New passphrase", "tr0ub4dor\n"), .init("Repeat it", "tr0ub4dor\n")]
        )
        #expect(exported.status == 0 && exported.screen.contains("[##############################] 3 of 3"))
        #expect(!exported.screen.contains("tr0ub4dor"))
        let imported = try sandbox.lockbox("import", backup, typing: [.init("Passphrase", "tr0ub4dor\n")])
        #expect(imported.status == 0 && imported.screen.hasSuffix("unchanged: 3\r\n"))
        #expect(imported.screen.contains("import [##############################] 3 of 3"))
    }

    @Test func aLockedStoreIsUnlockedFirst() throws {
        let passcode = try sandbox.setPasscode()
        #expect(try export().status == 2)
        #expect(!FileManager.default.fileExists(atPath: backup))
        #expect(try export("--passcode-file", passcode).status == 0)
        #expect(try importBackup().status == 2)
        #expect(try importBackup("--passcode-file", passcode).status == 0)
    }

    // MARK: rotate

    @Test func rotation() throws {
        let rotated = try sandbox.lockbox("rotate")
        #expect(
            rotated.status == 0 && rotated.output == "items resealed: 3\n"
                && rotated.error.contains("3 of 3")
                && rotated.error.hasSuffix("lockbox: The device key is new.\n")
        )
        #expect(try sandbox.lockbox("get", "c", "--prefix", "q").output == "of c")
        let passcode = try sandbox.setPasscode()
        #expect(try sandbox.lockbox("rotate").status == 2)
        #expect(try sandbox.lockbox("rotate", "--passcode-file", passcode, "--quiet").status == 0)
        #expect(
            try sandbox.lockbox("get", "a", "--prefix", "p", "--passcode-file", passcode).output == "of a"
        )
    }

    /// With the keys that the kernel has, no new ones can be wrapped.
    @Test(.needsKernelKeyring) func rotationOfAStoreThatIsOpenForEveryProgram() throws {
        let passcode = try sandbox.setPasscode()
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        try #require(try sandbox.lockbox("unlock", "--passcode-file", passcode).status == 0)
        #expect(try sandbox.lockbox("rotate", "--passcode-file", passcode).status == 0)
        #expect(
            try sandbox.lockbox("get", "a", "--prefix", "p", "--passcode-file", passcode).output == "of a"
        )
    }

    @Test func rotationNamesWhatItCannotRead() throws {
        try sandbox.damageAnItem()
        let outcome = try sandbox.lockbox("rotate", "--quiet")
        #expect(outcome.status == 3 && outcome.error.contains("old keys"))
        #expect(outcome.error.contains("\(sandbox.store)/items/"))
    }

    // MARK: verify

    @Test func verification() throws {
        let whole = try sandbox.lockbox("verify")
        #expect(whole.status == 0 && whole.output == "items intact: 3, of which locked: 0\n")
        #expect(whole.error.contains("3 of 3"))
        let passcode = try sandbox.setPasscode()
        #expect(try sandbox.lockbox("verify").output == "items intact: 3, of which locked: 3\n")
        #expect(try sandbox.lockbox("verify", "--passcode-file", passcode).output.contains("locked: 0"))
    }

    @Test func whatIsDamagedIsNamed() throws {
        let path = try sandbox.damageAnItem()
        let outcome = try sandbox.lockbox("verify")
        #expect(outcome.status == 3 && outcome.output.contains("damaged: \(path): "))
        #expect(!outcome.output.contains("\(path): \(path)"))
        #expect(outcome.error.contains("Problems found: 1. See the list."))
        #expect(outcome.output.hasSuffix("items intact: 2, of which locked: 0\n"))
        struct Report: Decodable {
            struct Finding: Decodable { var kind, location, reason: String }
            var intact, locked: Int
            var findings: [Finding]
        }
        let json = try sandbox.lockbox("verify", "--json")
        let report = try JSONDecoder().decode(Report.self, from: json.bytes)
        #expect(json.status == 3 && report.intact == 2 && report.findings.map(\.kind) == ["damaged"])
        #expect(report.findings.first?.location == path)
    }

    @Test func damageIsGonePastAndRemovedByWhatWasNamed() throws {
        let path = try sandbox.damageAnItem(at: 100)
        let record = path.dropFirst("\(sandbox.store)/items/".count)
        let lists = try ["p", "q"].map { try sandbox.lockbox("list", "--prefix", $0) }
        #expect(lists.map(\.status).sorted() == [0, 3])
        #expect(lists.contains { $0.error.contains(record) })
        let status = try sandbox.lockbox("status")
        #expect(status.status == 3 && status.output.contains("no passcode"))
        let exported = try export()
        #expect(exported.status == 3 && exported.output.contains("items in the backup: 2"))
        #expect(exported.error.contains(record))
        #expect(try sandbox.lockbox("remove", "--record", "../keybag").status == 64)
        #expect(try sandbox.lockbox("remove").status == 64)
        #expect(try sandbox.lockbox("quarantine", path).status == 0)
        #expect(try sandbox.lockbox("status").status == 0)
        #expect(try sandbox.lockbox("verify").output.contains("items intact: 2"))
        let other = try sandbox.damageAnItem(at: 100)
        #expect(try sandbox.lockbox("remove", "--record", other).status == 0)
        #expect(try sandbox.lockbox("verify").output.contains("items intact: 1"))
    }

    @Test func leftoversAreNoDamage() throws {
        _ = try sandbox.file("store/tmp/left", "x")
        let outcome = try sandbox.lockbox("verify")
        #expect(outcome.status == 0 && outcome.output.contains("leftover: "), "\(outcome.output)")
    }

    /// As a nightly job does it.
    @Test func aBackupWithMoreStays() throws {
        #expect(try export().status == 0)
        #expect(try export().output == "items in the backup: 3\n")
        let smaller = try export("--prefix", "p")
        #expect(smaller.output.contains("is now \(backup).earlier-1\n"), "\(smaller.output)")
        try FileManager.default.removeItem(atPath: backup)
        try FileManager.default.moveItem(atPath: "\(backup).earlier-1", toPath: backup)
        #expect(try importBackup().output == "items imported: 0, unchanged: 3\n")
        #expect(try export("--prefix", "p", "--replace").output == "items in the backup: 2\n")
    }
}
