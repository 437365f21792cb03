import Foundation
import Lockbox
import Testing

/// The protocol, request by request.
@Suite struct GitCredentialTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func git(_ operation: String, _ lines: String...) throws -> Outcome {
        try sandbox.lockbox("git-credential", operation, text: lines.map { "\($0)\n" }.joined() + "\n")
    }

    private func store(_ username: String, _ password: String, host: String = "example.com") throws {
        let outcome = try git(
            "store",
            "protocol=https",
            "host=\(host)",
            "username=\(username)",
            "password=\(password)"
        )
        #expect(outcome.status == 0 && outcome.output == "" && outcome.error == "")
    }

    @Test func whatIsStoredComesBack() throws {
        try store("alice", "hunter2")
        let found = try git("get", "protocol=https", "host=example.com")
        #expect(
            found.status == 0 && found.output == "username=alice\npassword=hunter2\n" && found.error == ""
        )
        #expect(
            try sandbox.lockbox("list", "--prefix", "internet-passwords").output
                == "https://alice@example.com\n"
        )
    }

    @Test(arguments: [
        ["protocol=http", "host=example.com"], ["protocol=https", "host=example.org"],
        ["protocol=https", "host=example.com:8443"], ["protocol=https", "host=Example.com"],
        ["protocol=https", "host=example.com", "username=bob"],
        ["protocol=https", "host=example.com", "username="],
        ["protocol=https", "host=example.com", "path=a.git"], ["protocol=https", "host=xample.com"],
        ["protocol=https", "host=example.com/a"], ["protocol=https", "host=alice@example.com"],
        ["protocol=https", "host="], ["protocol=https"], ["host=example.com"],
        ["protocol=", "host=example.com"], [],
        ["protocol=https", "host=example.com\r"], ["protocol=https", "host=%65xample.com"],
    ])
    func anythingElseIsNotGiven(_ lines: [String]) throws {
        try store("alice", "hunter2")
        let request = lines.map { "\($0)\n" }.joined()
        let outcome = try sandbox.lockbox("git-credential", "get", text: request)
        #expect(outcome.status == 0 && outcome.output == "")
        let erased = try sandbox.lockbox("git-credential", "erase", text: request)
        #expect(erased.status == 0)
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output != "")
    }

    @Test func usersAndPathsAreKeptApart() throws {
        try store("alice", "a")
        try store("bob", "b")
        #expect(
            try git("get", "protocol=https", "host=example.com", "username=alice").output.contains(
                "password=a\n"
            )
        )
        #expect(
            try git("get", "protocol=https", "host=example.com", "username=bob").output.contains(
                "password=b\n"
            )
        )
        _ = try git("store", "protocol=https", "host=path.tld", "path=foo.git", "username=user", "password=p")
        #expect(try git("get", "protocol=https", "host=path.tld", "path=bar.git").output == "")
        #expect(
            try git("get", "protocol=https", "host=path.tld", "path=foo.git").output.contains("password=p\n")
        )
        #expect(try git("get", "protocol=https", "host=path.tld").output.contains("password=p\n"))
    }

    @Test func aRequestThatNamesAHostTwiceIsRefused() throws {
        try store("alice", "a")
        let two = try git("get", "protocol=https", "host=example.com", "host=evil.example")
        #expect(two.status == 64 && two.output == "" && two.error.contains("`host` twice"))
        #expect(try git("get", "c[]=a", "c[]=b", "protocol=https", "host=example.com").output != "")
    }

    /// Swift takes the Kelvin sign for a K, and a decomposed letter for a composed one.
    @Test(arguments: [("KIWI", "\u{212A}IWI"), ("caf\u{E9}", "cafe\u{301}")])
    func hostsAreComparedByTheirBytes(_ stored: String, _ asked: String) throws {
        _ = try git("store", "protocol=https", "host=\(stored)", "username=u", "password=p")
        #expect(try git("get", "protocol=https", "host=\(asked)").output == "")
        #expect(try git("get", "protocol=https", "host=\(stored)").output.contains("password=p\n"))
    }

    @Test func theNewestIsGiven() throws {
        let backend = EncryptedFileBackend(directory: sandbox.store)
        for (user, age) in [("alice", 2.0), ("bob", 1.0), ("carol", 3.0)] {
            let password = InternetPassword(server: "example.com", account: user, protocol: "https")
            let item = try StoredItem(
                key: ItemKey(prefix: InternetPassword.sharedPrefix, key: password.key.name),
                value: ArchivedValue(data: Data("p".utf8), format: .data),
                modified: Date(timeIntervalSinceNow: -60 * age),
                searchable: password.searchable
            )
            try backend.write(item, policy: .addOnly)
        }
        #expect(try git("get", "protocol=https", "host=example.com").output == "username=bob\npassword=p\n")
    }

    @Test func expiryAndRefreshTokenComeAlong() throws {
        let lines = [
            "username=oauth", "password=t", "password_expiry_utc=4102444800", "oauth_refresh_token=r",
        ]
        let request = (["protocol=https", "host=example.com"] + lines).map { "\($0)\n" }.joined()
        #expect(try sandbox.lockbox("git-credential", "store", text: request).status == 0)
        #expect(
            try git("get", "protocol=https", "host=example.com").output == lines.map { "\($0)\n" }.joined()
        )
        let item = try sandbox.library("internet-passwords").attributes(forKey: "https://oauth@example.com")
        #expect(item?.expires == Date(timeIntervalSince1970: 4_102_444_800))
        // A new password without a token makes the old token useless.
        try store("oauth", "u")
        #expect(
            try git("get", "protocol=https", "host=example.com").output == "username=oauth\npassword=u\n"
        )
    }

    /// git gives it to the next helper, which gets a new password with it.
    @Test func theRefreshTokenOutlivesThePassword() throws {
        let request = ["protocol=https", "host=example.com", "username=oauth"]
        let secrets = ["password=t", "password_expiry_utc=4102444800", "oauth_refresh_token=r"]
        let text = (request + secrets).map { "\($0)\n" }.joined()
        #expect(try sandbox.lockbox("git-credential", "store", text: text).status == 0)
        try sandbox.library("internet-passwords")
            .setAttributes(WriteOptions(expires: .after(-1)), forKey: "https://oauth@example.com")
        #expect(
            try git("get", request[0], request[1]).output == "username=oauth\noauth_refresh_token=r\n"
        )
        #expect(try git("erase", request[0], request[1], request[2], "password=other").status == 0)
        #expect(try git("get", request[0], request[1]).output.contains("oauth_refresh_token=r\n"))
        #expect(try git("erase", request[0], request[1], request[2], "password=t").status == 0)
        #expect(try sandbox.library("internet-passwords").allKeys() == [])
    }

    @Test func whatHasExpiredIsNotStored() throws {
        _ = try git(
            "store",
            "protocol=https",
            "host=h",
            "username=u",
            "password=p",
            "password_expiry_utc=1000000000"
        )
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output == "")
    }

    @Test func theEmptyNameAndPasswordAreOnesToo() throws {
        try store("", "", host: "sso.tld")
        #expect(try git("get", "protocol=https", "host=sso.tld").output == "username=\npassword=\n")
    }

    @Test(arguments: [
        ["username=u"], ["password=p"], [], ["username=u", "password=p", "ephemeral=1"],
        ["authtype=Bearer", "credential=token", "username=u"],
    ])
    func whatIsNoWholeCredentialIsNotStored(_ lines: [String]) throws {
        let request = (["protocol=https", "host=h"] + lines).map { "\($0)\n" }.joined()
        #expect(try sandbox.lockbox("git-credential", "store", text: request).status == 0)
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output == "")
    }

    @Test func whatIsUnknownIsIgnored() throws {
        let unknown = [
            "capability[]=authtype", "state[]=x", "wwwauth[]=Basic realm=\"git\"", "continue=1", "=", "neu=é",
        ]
        let request = (unknown + ["protocol=https", "host=h", "username=u", "password=p"]).map { "\($0)\n" }
            .joined()
        #expect(try sandbox.lockbox("git-credential", "store", text: request).status == 0)
        #expect(
            try git("get", "protocol=https", "host=h", "capability[]=state").output
                == "username=u\npassword=p\n"
        )
        for operation in ["capability", "nonsense"] {
            let outcome = try git(operation, "protocol=https", "host=h")
            #expect(outcome.status == 0 && outcome.output == "" && outcome.error == "")
        }
    }

    @Test func thePasswordCanHaveAnyBytes() throws {
        let password = Data([0x70, 0xE4, 0xFF, 0x3D, 0x20, 0x0D])
        let context = Data("protocol=https\nhost=h\n".utf8)
        let credential = Data("username=jörg\npassword=".utf8) + password + Data("\n".utf8)
        #expect(try sandbox.lockbox("git-credential", "store", input: context + credential).status == 0)
        #expect(try sandbox.lockbox("git-credential", "get", input: context).bytes == credential)
    }

    /// It could not be found by its attributes, which are text.
    @Test func aNameThatIsNotUTF8IsNotStored() throws {
        let request = Data("protocol=https\nhost=h\npassword=p\nusername=j".utf8) + Data([0xF6, 0x0A])
        #expect(try sandbox.lockbox("git-credential", "store", input: request).status == 0)
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output == "")
    }

    @Test func theRequestEndsAtTheBlankLine() throws {
        try store("alice", "hunter2")
        let request = "protocol=https\nhost=other.tld\n\nhost=example.com\n"
        #expect(try sandbox.lockbox("git-credential", "get", text: request).output == "")
    }

    @Test(arguments: ["host=example.com\0.evil.tld", "host", "host=example.com\nnonsense", "\0=x", "x\0"])
    func hostileInputDoesNothing(_ lines: String) throws {
        try store("alice", "hunter2")
        for operation in ["get", "store", "erase"] {
            let request = "protocol=https\nhost=example.com\nusername=mallory\npassword=p\n\(lines)\n"
            let outcome = try sandbox.lockbox("git-credential", operation, text: request)
            #expect(outcome.status == 64 && outcome.output == "" && !outcome.error.contains("mallory"))
        }
        #expect(
            try sandbox.lockbox("list", "--prefix", "internet-passwords").output
                == "https://alice@example.com\n"
        )
    }

    @Test(arguments: [
        "protocol=https\nusername=u\nhost=h\r", "protocol=ht\u{1B}tp\nusername=u\nhost=h",
        "protocol=https\nusername=u\nhost=h\npath=a\tb", "protocol=https\nhost=h\nusername=u\u{7F}",
    ])
    func controlCharactersAreInNoAddress(_ lines: String) throws {
        let request = "password=p\n\(lines)\n"
        #expect(try sandbox.lockbox("git-credential", "store", text: request).status == 0)
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output == "")
    }

    @Test func overlongInputDoesNothing() throws {
        let long = String(repeating: "a", count: 300_000)
        for lines in ["host=\(long)\nusername=u\npassword=p", "host=h\nusername=u\npassword=\(long)"] {
            #expect(
                try sandbox.lockbox("git-credential", "store", text: "protocol=https\n\(lines)\n").status
                    == 64
            )
        }
        let host = String(repeating: "a", count: 10_000)
        #expect(try git("store", "protocol=https", "host=\(host)", "username=u", "password=p").status == 64)
        #expect(try git("get", "protocol=https", "host=\(host)").output == "")
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output == "")
    }

    @Test func anExpiryBeyondAllDates() throws {
        let lines = ["protocol=https", "host=h", "username=u", "password=p"]
        _ = try sandbox.lockbox(
            "git-credential",
            "store",
            text: (lines + ["password_expiry_utc=9223372036854775807"]).joined(separator: "\n") + "\n"
        )
        #expect(
            try sandbox.lockbox("list", "--long", "--prefix", "internet-passwords").output.contains(
                "9999-12-31"
            )
        )
        #expect(try git("get", "protocol=https", "host=h").output.contains("password=p"))
    }

    /// An app can store one, and git has no such date.
    @Test func anExpiryThatNoIntegerHolds() throws {
        let password = InternetPassword(server: "h", account: "u", protocol: "https")
        try sandbox.library(InternetPassword.sharedPrefix).archiveObject(
            Data("p".utf8),
            forKey: password.key,
            options: WriteOptions(expires: .at(Date(timeIntervalSinceReferenceDate: 1e300)))
        )
        #expect(try git("get", "protocol=https", "host=h").output == "username=u\npassword=p\n")
    }

    @Test func eraseGoesByThePasswordIfThereIsOne() throws {
        try store("alice", "new")
        _ = try git("erase", "protocol=https", "host=example.com", "username=alice", "password=old")
        #expect(try git("get", "protocol=https", "host=example.com").output != "")
        _ = try git("erase", "protocol=https", "host=example.com", "username=alice", "password=new")
        #expect(try git("get", "protocol=https", "host=example.com").output == "")
    }

    @Test func eraseWithoutAUserIsForAllOfTheHost() throws {
        for user in ["alice", "bob"] { try store(user, "p") }
        try store("alice", "p", host: "example.org")
        _ = try git("erase", "protocol=https", "host=example.com")
        #expect(
            try sandbox.lockbox("list", "--prefix", "internet-passwords").output
                == "https://alice@example.org\n"
        )
    }

    @Test func storingTheSameAgainChangesNothing() throws {
        try store("alice", "p")
        let before = try sandbox.library("internet-passwords").attributes(forKey: "https://alice@example.com")
        try store("alice", "p")
        #expect(
            try sandbox.library("internet-passwords").attributes(forKey: "https://alice@example.com")
                == before
        )
        try store("alice", "q")
        #expect(try git("get", "protocol=https", "host=example.com").output.contains("password=q\n"))
    }

    @Test func otherItemsUnderThePrefixAreNotTouched() throws {
        let lockbox = try sandbox.library("internet-passwords")
        let options = WriteOptions(attributes: ["server": "example.com"])
        for key in ["token", "https://example.com", "https://alice@example.com"] {
            try lockbox.archiveObject("hunter2", forKey: key, options: options)
        }
        #expect(try git("get", "protocol=https", "host=example.com").output == "")
        _ = try git("erase", "protocol=https", "host=example.com", "password=hunter2")
        #expect(try lockbox.allKeys().count == 3)
    }

    @Test func thePrefixIsTheSharedOneWhateverTheEnvironmentSays() throws {
        sandbox.environment["LOCKBOX_KEY_PREFIX"] = "com.example.app"
        try store("alice", "p")
        #expect(try sandbox.library("internet-passwords").allKeys().count == 1)
        let request = "protocol=https\nhost=example.com\n"
        #expect(try sandbox.lockbox("git-credential", "--prefix", "work", "get", text: request).output == "")
    }

    /// The value of the newest one is damaged: the other one is given. If there is no other, that is said.
    @Test func aDamagedPasswordHidesNoOther() throws {
        try store("alice", "a")
        let items = "\(sandbox.store)/items"
        func records() throws -> Set<String> {
            let all = try FileManager.default.subpathsOfDirectory(atPath: items)
            return Set(all.filter { $0.contains("/") && !$0.hasSuffix("/lock") })
        }
        let first = try records()
        try store("bob", "b")
        let path = try #require(try records().subtracting(first).first)
        let file = URL(filePath: "\(items)/\(path)")
        var bytes = try Data(contentsOf: file)
        bytes[bytes.count - 1] ^= 1
        try bytes.write(to: file)
        #expect(try git("get", "protocol=https", "host=example.com").output == "username=alice\npassword=a\n")
        let damaged = try git("get", "protocol=https", "host=example.com", "username=bob")
        #expect(damaged.status == 3 && damaged.output == "" && damaged.error.contains("bob@example.com"))
        #expect(try git("get", "protocol=https", "host=example.org").output == "")
    }

    @Test func aLockedStoreIsSaidAndNothingIsAskedWhereGitMayNot() throws {
        try store("alice", "hunter2")
        let passcode = try sandbox.setPasscode()
        let request = ["protocol=https", "host=example.com"]
        let locked = try git("get", request[0], request[1])
        #expect(locked.status == 2 && locked.output == "" && locked.error.contains("locked"))
        var execution = sandbox.execution(["git-credential", "get"])
        execution.input = Data("protocol=https\nhost=example.com\n".utf8)
        execution.terminal = [2]
        execution.answers = [.init("Passcode", "correct horse\n")]
        #expect(try execution.run().output == "username=alice\npassword=hunter2\n")
        execution.environment["GIT_TERMINAL_PROMPT"] = "0"
        execution.answers = []
        #expect(try execution.run().status == 2)
        sandbox.environment["LOCKBOX_PASSCODE_FILE"] = passcode
        #expect(try git("get", request[0], request[1]).output.contains("hunter2"))
    }
}

/// The real git against a real server.
@Suite struct GitTests {
    let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        let bin = "\(sandbox.home)/bin"
        try FileManager.default.createDirectory(atPath: bin, withIntermediateDirectories: true)
        for name in ["lockbox", "git-credential-lockbox"] {
            try FileManager.default.createSymbolicLink(
                atPath: "\(bin)/\(name)",
                withDestinationPath: Sandbox.executable
            )
        }
        let askpass = """
            #!/bin/sh
            echo "$1" >> "$HOME/asked"
            case "$1" in Username*) echo alice ;; *) cat "$HOME/password" ;; esac
            """
        try #require(chmod(sandbox.file("askpass", askpass), 0o700) == 0)
        sandbox.environment.merge(
            [
                "PATH": "\(bin):\(sandbox.environment["PATH"] ?? "")",
                "GIT_ASKPASS": "\(sandbox.home)/askpass",
                "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
                "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A",
                "GIT_COMMITTER_EMAIL": "a@example.com",
            ]
        ) { $1 }
    }

    @discardableResult
    private func git(_ arguments: String..., input: String = "") throws -> Outcome {
        var execution = sandbox.execution(["git"] + arguments, executable: "/usr/bin/env")
        execution.input = Data(input.utf8)
        return try execution.run()
    }

    /// What askpass was asked since the last time.
    private func questions() throws -> Int {
        let path = "\(sandbox.home)/asked"
        defer { try? FileManager.default.removeItem(atPath: path) }
        return (try? String(contentsOfFile: path, encoding: .utf8))?.split(separator: "\n").count ?? 0
    }

    private func server(password: String) throws -> GitServer {
        let work = "\(sandbox.home)/work"
        for arguments in [
            ["init", "-q", work], ["-C", work, "commit", "-q", "--allow-empty", "-m", "first"],
            ["clone", "-q", "--bare", work, "\(sandbox.home)/served/project.git"],
        ] {
            let outcome = try sandbox.execution(["git"] + arguments, executable: "/usr/bin/env").run()
            try #require(outcome.status == 0, "\(outcome.error)")
        }
        _ = try sandbox.file("password", password)
        return try GitServer(repositories: "\(sandbox.home)/served", password: password)
    }

    @Test(arguments: ["!lockbox git-credential", "lockbox"])
    func aCloneAsksOnceAndAWrongPasswordIsErased(_ helper: String) throws {
        let server = try server(password: "hunter2")
        let url = "\(server.address)/project.git"
        try git("config", "--global", "credential.helper", helper)

        let first = try git("clone", url, "\(sandbox.home)/one")
        #expect(first.status == 0, "\(first.error)")
        #expect(try questions() == 2)  // the name and the password
        #expect(FileManager.default.fileExists(atPath: "\(sandbox.home)/one/.git"))

        #expect(try git("clone", url, "\(sandbox.home)/two").status == 0)
        #expect(try questions() == 0)
        #expect(try git("-C", "\(sandbox.home)/two", "fetch").status == 0)
        #expect(try questions() == 0)
        #expect(server.refusals == 0)

        // The password is changed: git tries the old one, and takes it away.
        server.password = "battery staple"
        _ = try sandbox.file("password", "battery staple")
        #expect(try git("-C", "\(sandbox.home)/two", "fetch").status != 0)
        #expect(server.refusals > 0)
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output == "")
        _ = try questions()
        #expect(try git("-C", "\(sandbox.home)/two", "fetch").status == 0)
        #expect(try questions() == 2)
        #expect(try git("-C", "\(sandbox.home)/one", "fetch").status == 0)
        #expect(try questions() == 0)
        #expect(
            try sandbox.lockbox("list", "--prefix", "internet-passwords").output.hasPrefix(
                "http://alice@127.0.0.1"
            )
        )
    }

    @Test func aWrongPasswordThatWasTypedIsNotKept() throws {
        let server = try server(password: "hunter2")
        _ = try sandbox.file("password", "wrong")
        try git("config", "--global", "credential.helper", "!lockbox git-credential")
        #expect(try git("clone", "\(server.address)/project.git", "\(sandbox.home)/one").status != 0)
        #expect(server.refusals > 0)
        #expect(try sandbox.lockbox("list", "--prefix", "internet-passwords").output == "")
    }

    @Test func severalHelpersInARow() throws {
        let context = "protocol=https\nhost=example.com\n"
        try git("config", "--global", "--add", "credential.helper", "!lockbox git-credential")
        let other = "!f() { test \"$1\" = get && echo username=from-other && echo password=p; }; f"
        try git("config", "--global", "--add", "credential.helper", other)
        // Lockbox has none, so the other is asked; what it gives is stored in Lockbox, which is asked first then.
        #expect(try git("credential", "fill", input: context).output.contains("username=from-other\n"))
        try git("credential", "approve", input: context + "username=alice\npassword=hunter2\n")
        let filled = try git("credential", "fill", input: context)
        #expect(filled.output.contains("username=alice\n") && filled.output.contains("password=hunter2\n"))
        try git("credential", "reject", input: context + "username=alice\npassword=hunter2\n")
        #expect(try git("credential", "fill", input: context).output.contains("username=from-other\n"))
        #expect(try questions() == 0)
    }

    @Test func aHelperThatQuitsIsObeyed() throws {
        try git("config", "--global", "--add", "credential.helper", "!lockbox git-credential")
        try git("config", "--global", "--add", "credential.helper", "!echo quit=1; :")
        #expect(try git("credential", "fill", input: "protocol=https\nhost=example.com\n").status != 0)
        #expect(try questions() == 0)
    }

    @Test func gitMatchesPathsWhereItIsTold() throws {
        try git("config", "--global", "credential.helper", "!lockbox git-credential")
        try git("config", "--global", "credential.useHttpPath", "true")
        let context = "protocol=https\nhost=example.com\npath="
        try git("credential", "approve", input: "\(context)a.git\nusername=alice\npassword=hunter2\n")
        #expect(
            try git("credential", "fill", input: "\(context)a.git\n").output.contains("password=hunter2\n")
        )
        _ = try sandbox.file("password", "asked for")
        #expect(
            try git("credential", "fill", input: "\(context)b.git\n").output.contains("password=asked for\n")
        )
    }
}
