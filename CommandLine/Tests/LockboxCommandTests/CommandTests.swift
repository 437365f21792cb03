import Foundation
import Lockbox
import Testing

@testable import LockboxCommand

/// Tests that no transcript can hold. All others are in ../Transcripts.
@Suite struct CommandTests {
    private func cluster(_ text: String) throws -> ClusterAddress? {
        if case .cluster(let address) = try StoreAddress(text) { address } else { nil }
    }

    @Test func addressesOfClusters() throws {
        let one = try #require(try cluster("etcd://a.example:2379,b.example/secrets/shop"))
        #expect(one.endpoints == ["https://a.example:2379", "https://b.example:2379"])
        #expect(one.root == "/secrets/shop")
        let local = try #require(try cluster("etcd+plaintext://127.0.0.1:1,[::1],[::2]:3/x"))
        #expect(local.endpoints == ["http://127.0.0.1:1", "http://[::1]:2379", "http://[::2]:3"])
        #expect(try cluster("/var/lib/x") == nil)
    }

    @Test func theBeginningMustBeOfOneSlotOnly() throws {
        func slot(_ id: String) throws -> UnlockSlot {
            let json =
                #"{"id": "\#(id)", "kind": 3, "label": "", "created": 0, "opensAllClasses": true, "isOlderThanRevocation": false}"#
            return try JSONDecoder().decode(UnlockSlot.self, from: Data(json.utf8))
        }
        let all = [try slot("abcd1"), try slot("abcd2"), try slot("ffff")]
        #expect(try SlotsCommand.slot("ABCD2", of: all).id == "abcd2")
        let failure = #expect(throws: Failure.self) { try SlotsCommand.slot("abcd", of: all) }
        #expect(failure?.status == .conflict)
        #expect(failure?.message.hasPrefix("2 slots have IDs that begin with abcd") == true)
        #expect(throws: LockboxError.slotNotFound(slot: "0000")) { try SlotsCommand.slot("0000", of: all) }
    }

    /// The library's would be about Swift calls, or about what only a library cannot know.
    @Test(arguments: [
        (
            LockboxError.rolledBack(record: .endpoint("https://a:2379"), reason: "r"),
            "Check the cluster for a restored snapshot."
        ),
        (.rolledBack(record: .keybag("etcd:/s/k/keybag"), reason: "r"), "run `lockbox accept-restored`"),
        (.rolledBack(record: .record("/s/items/a/b"), reason: "r"), "or remove the item"),
        (
            .decodingFailed(key: "k", type: "String", underlying: CancellationError()),
            "Use --json to print it"
        ),
        (
            .wrongPasscode,
            "If you are sure of it, the keybag may be forged: compare it with a copy of the store before you use a recovery code"
        ),
        (.missingKeyPrefix, "Use --prefix."),
        (.notEnoughMemory(bytes: 7), "run `lockbox passcode change --strength interactive`"),
        (.typeMismatch(key: "k", stored: .lockbox2, type: "String"), "Use `lockbox get`"),
        (.deviceKeyMismatch(source: "/k"), "name it with --device-key-file"),
        (.unsupportedVersion(record: "/s/keybag", version: 9), "Update lockbox."),
        (.conflict(record: "/s/keybag"), "Run the command again."),
        (.notSupported(operation: "x"), "Not supported: x. Nothing was changed."),
        (.invalidPasscode(reason: "it is empty"), "The passcode cannot be used: it is empty."),
        (.invalidDeviceKey(source: "/k", reason: "r"), "The device key (/k) cannot be used: r."),
        (.requirementNotMet(record: "/s/keybag", reason: "r"), "leave out the option"),
    ])
    func messagesAreAboutTheCommand(_ error: LockboxError, _ text: String) {
        let message = Failure(error).message
        #expect(message.contains(text) && message.hasSuffix("."), "\(message)")
    }

    /// RFC 6238, appendix B.
    @Test(arguments: [
        (59, "94287082", "46119246", "90693936"), (1_111_111_109, "07081804", "68084774", "25091201"),
        (1_111_111_111, "14050471", "67062674", "99943326"),
        (1_234_567_890, "89005924", "91819424", "93441116"),
        (2_000_000_000, "69279037", "90698825", "38618901"),
        (20_000_000_000, "65353130", "77737706", "47863826"),
    ])
    func codesOfTimes(_ seconds: Double, _ sha1: String, _ sha256: String, _ sha512: String) throws {
        // The digits from 1 to 0, in 20, 32 and 64 bytes.
        let two = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
        for (algorithm, secret, code) in [
            ("SHA1", two, sha1), ("SHA256", "\(two)GEZDGNBVGY3TQOJQGEZA====", sha256),
            ("SHA512", "\(two)\(two)\(two)GEZDGNA=", sha512),
        ] {
            let text = "otpauth://totp/x?secret=\(secret)&digits=8&algorithm=\(algorithm)"
            let password = try OneTimePassword(text)
            #expect(password.code(at: Date(timeIntervalSince1970: seconds)) == code)
            #expect(password.secondsLeft(at: Date(timeIntervalSince1970: 59)) == 1)
        }
    }

    /// Either can be used with what the other has stored.
    @Test func appsAndTheCommandHaveTheSameItems() throws {
        struct Session: Codable, Equatable { var user: String; var number: Int }
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "lockbox-\(UInt64.random(in: .min ... .max))"
        )
        defer { try? FileManager.default.removeItem(at: folder) }
        func command(_ line: String) throws -> String {
            let process = Process()
            let pipe = Pipe()
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", line]
            process.standardOutput = pipe
            let tests = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
            let executable =
                ProcessInfo.processInfo.environment["LOCKBOX_COMMAND"]
                ?? tests.appending(path: "lockbox").path
            process.environment = ["lockbox": executable, "LOCKBOX_DIRECTORY": folder.path]
            try process.run()
            process.waitUntilExit()
            #expect(process.terminationStatus == 0)
            return String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        }
        _ = try command(
            #"printf 8f14 | $lockbox set text && printf 'a\377\n' | $lockbox set data --data && "#
                + #"printf '{"user":"alice","number":7}' | $lockbox set session --json"#
        )
        let backend = EncryptedFileBackend(directory: folder.path)
        let lockbox = try Lockbox(keyPrefix: "lockbox", backend: backend)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "text") == "8f14")
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "data") == Data([0x61, 0xFF, 0x0A]))
        #expect(
            try lockbox.unarchiveObject(Session.self, forKey: "session") == Session(user: "alice", number: 7)
        )
        try lockbox.archiveObject([1, 2, 3], forKey: "numbers")
        try lockbox.archiveObject("a \"text\"", forKey: "text")
        #expect(
            try command("$lockbox get numbers; $lockbox get text; $lockbox get text --json")
                == #"[1,2,3]a "text""a \"text\"""#
        )
        // git has no such date.
        let password = InternetPassword(server: "h", account: "u", protocol: "https")
        try Lockbox(keyPrefix: InternetPassword.sharedPrefix, backend: backend).archiveObject(
            Data("p".utf8),
            forKey: password.key,
            options: WriteOptions(expires: .at(Date(timeIntervalSinceReferenceDate: 1e300)))
        )
        #expect(
            try command(#"printf 'protocol=https\nhost=h\n' | $lockbox git-credential get"#)
                == "username=u\npassword=p\n"
        )
    }
}
