import Foundation
import Lockbox
import Testing

@Suite struct ItemTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    // MARK: set and get

    @Test func textComesBackAndNothingElseIsPrinted() throws {
        let stored = try sandbox.lockbox("set", "token", text: "8f14e45f")
        #expect(stored.status == 0 && stored.output == "" && stored.error == "")
        let read = try sandbox.lockbox("get", "token")
        #expect(read.status == 0 && read.output == "8f14e45f" && read.error == "")
        #expect(try sandbox.library().unarchiveObject(String.self, forKey: "token") == "8f14e45f")
    }

    @Test(arguments: [
        ("one line\n", "one line"), ("one line\r\n", "one line"), ("two\nlines\n", "two\nlines\n"),
        ("\n", ""), ("", ""),
        ("\nlast", "\nlast"),
    ])
    func onlyTheNewlineOfASingleLineIsNotPartOfIt(_ input: String, _ value: String) throws {
        #expect(try sandbox.lockbox("set", "text", "--allow-empty", text: input).status == 0)
        #expect(try sandbox.lockbox("get", "text").output == value)
    }

    @Test func dataIsKeptByteForByte() throws {
        let bytes = Data((0...255).map { UInt8($0) } + [0x0A])
        #expect(try sandbox.lockbox("set", "data", "--data", input: bytes).status == 0)
        #expect(try sandbox.lockbox("get", "data").bytes == bytes)
        #expect(try sandbox.library().unarchiveObject(Data.self, forKey: "data") == bytes)
        #expect(
            try sandbox.lockbox("get", "data", "--json").output
                == "\"\(bytes.base64EncodedString())\"".replacing("/", with: "\\/")
        )
    }

    @Test func bytesThatAreNoTextAreNotTakenForText() throws {
        let refused = try sandbox.lockbox("set", "data", input: Data([0x68, 0xFF]))
        #expect(refused.status == 64 && refused.error.contains("--data"))
        #expect(try sandbox.lockbox("get", "data").status == 1)
    }

    @Test(arguments: [
        "tru", "[1,]", #"{"a": 1, }"#, "[1 2]", "01", "\u{FEFF}1", "\"a\"\0", "\"\0a\0\"\0", "1 2", "",
    ])
    func whatIsNoJSONIsNotStoredAsSuch(_ text: String) throws {
        #expect(try sandbox.lockbox("set", "j", "--json", text: text).status == 64)
        #expect(try sandbox.lockbox("get", "j").status == 1)
    }

    @Test(arguments: [#"["a,]", "\",]"]"#, "-1.5e300", #"{"a":[1,{"b":[]}],"c":null}"#])
    func jsonIsKeptAsItIs(_ text: String) throws {
        #expect(try sandbox.lockbox("set", "j", "--json", text: text).status == 0)
        #expect(try sandbox.lockbox("get", "j").output == text)
    }

    @Test func jsonIsWhatProgramsArchive() throws {
        struct Session: Codable, Equatable { var user: String; var number: Int }
        #expect(
            try sandbox.lockbox("set", "session", "--json", text: #"{"user":"alice","number":7}"#).status == 0
        )
        #expect(
            try sandbox.library().unarchiveObject(Session.self, forKey: "session")
                == Session(user: "alice", number: 7)
        )
        try sandbox.library().archiveObject([1, 2, 3], forKey: "numbers")
        #expect(try sandbox.lockbox("get", "numbers").output == "[1,2,3]")
        try sandbox.library().archiveObject("a \"text\"", forKey: "text")
        #expect(try sandbox.lockbox("get", "text").output == "a \"text\"")
        #expect(try sandbox.lockbox("get", "text", "--json").output == #""a \"text\"""#)
    }

    @Test func whatIsNoJSONIsRefusedWithoutBeingShown() throws {
        let refused = try sandbox.lockbox("set", "session", "--json", text: "hunter2")
        #expect(refused.status == 64 && !refused.error.contains("hunter2"))
    }

    @Test func addAndUpdate() throws {
        #expect(try sandbox.lockbox("set", "k", "--update", text: "a").status == 1)
        #expect(try sandbox.lockbox("set", "k", "--add", text: "b").status == 0)
        let refused = try sandbox.lockbox("set", "k", "--add", text: "c")
        #expect(refused.status == 4 && refused.error.contains("Leave out --add to overwrite it."))
        #expect(try sandbox.lockbox("get", "k").output == "b")
        #expect(try sandbox.lockbox("set", "k", "--update", text: "d").status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "d")
    }

    @Test func classLabelCommentAndExpiryAreStored() throws {
        let before = Date()
        let stored = try sandbox.lockbox(
            "set",
            "k",
            "--class",
            "afterFirstUnlock",
            "--expires",
            "7d",
            "--label",
            "Web shop",
            "--comment",
            "of mine",
            text: "v"
        )
        #expect(stored.status == 0)
        let attributes = try #require(try sandbox.library().attributes(forKey: "k"))
        #expect(attributes.accessibility == .afterFirstUnlock)
        #expect(attributes.label == "Web shop" && attributes.comment == "of mine")
        let expiry = try #require(attributes.expires)
        #expect(expiry >= before + 7 * 86400 && expiry <= Date() + 7 * 86400)
    }

    @Test func whatIsNotNamedStays() throws {
        try sandbox.lockbox("set", "k", "--class", "always", "--expires", "7d", text: "v0")
        #expect(
            try sandbox.lockbox("change", "k", "--label", "L", "--comment", "C", "--attribute", "a=b=c")
                .status == 0
        )
        let first = try #require(try sandbox.library().attributes(forKey: "k"))
        #expect(first.searchable == ["a": "b=c"])
        #expect(try sandbox.lockbox("set", "k", "--update", text: "v2").status == 0)
        let updated = try #require(try sandbox.library().attributes(forKey: "k"))
        #expect(updated.accessibility == .always && updated.expires == first.expires && updated.label == "L")
        #expect(try sandbox.lockbox("set", "k", "--no-label", text: "v3").status == 0)
        let replaced = try #require(try sandbox.library().attributes(forKey: "k"))
        #expect(replaced.accessibility == .always && replaced.expires == nil && replaced.label == nil)
        #expect(replaced.comment == "C" && replaced.searchable == first.searchable)
    }

    @Test func attributesAreChangedAlone() throws {
        try sandbox.lockbox("set", "k", "--label", "L", "--attribute", "server=example.com", text: "v")
        #expect(try sandbox.lockbox("change", "k", "--expires", "7d", "--comment", "C").status == 0)
        let attributes = try #require(try sandbox.library().attributes(forKey: "k"))
        #expect(attributes.expires != nil && attributes.label == "L" && attributes.comment == "C")
        #expect(try sandbox.lockbox("get", "k").output == "v")
        #expect(try sandbox.lockbox("list", "--attribute", "server=example.com").output == "k\n")
        #expect(try sandbox.lockbox("list", "--attribute", "server=example.org").output == "")
        #expect(try sandbox.lockbox("info", "k").output.contains("attribute  server=example.com"))
        #expect(try sandbox.lockbox("change", "k", "--expires", "never", "--no-attributes").status == 0)
        let after = try #require(try sandbox.library().attributes(forKey: "k"))
        #expect(after.expires == nil && after.searchable.isEmpty)
        #expect(try sandbox.lockbox("change", "missing", "--label", "L").status == 1)
        #expect(try sandbox.lockbox("change", "k").status == 64)
        #expect(try sandbox.lockbox("change", "k", "--label", "L", "--no-label").status == 64)
        #expect(try sandbox.lockbox("set", "k", "--attribute", "=v", text: "v").status == 64)
    }

    @Test(arguments: ["2100-12-24": 4_133_289_600, "2100-12-24T12:00:00Z": 4_133_332_800])
    func anExpiryCanBeADate(_ text: String, _ seconds: Double) throws {
        #expect(try sandbox.lockbox("set", "k", "--expires", text, text: "v").status == 0)
        #expect(
            try sandbox.library().attributes(forKey: "k")?.expires == Date(timeIntervalSince1970: seconds)
        )
    }

    @Test(arguments: [
        "", "7", "d", "-7d", "0d", "+7d", "7y", "2001-01-01", "tomorrow", "99999999999999999999d",
        "2130-02-30", "2130-13-01", "2130-02-01T25:00:00Z", "2130-02-01T23:60:00Z", "2130-02-29",
    ])
    func anythingElseIsNoExpiry(_ text: String) throws {
        #expect(try sandbox.lockbox("set", "k", "--expires=\(text)", text: "v").status == 64)
        #expect(try sandbox.lockbox("get", "k").status == 1)
    }

    @Test func anExpiredItemIsAbsent() throws {
        try sandbox.library().archiveObject(
            "v",
            forKey: "k",
            options: WriteOptions(expires: .at(Date(timeIntervalSinceNow: -1)))
        )
        #expect(try sandbox.lockbox("get", "k").status == 1)
        #expect(try sandbox.lockbox("info", "k").output.contains("(expired)"))
        #expect(try sandbox.lockbox("list").output == "")
        #expect(try sandbox.lockbox("remove", "k").status == 0)
        #expect(
            try sandbox.library().backend.attributes(prefix: "lockbox", now: nil)
                .isEmpty
        )
    }

    @Test func prefixesAreStrangers() throws {
        try sandbox.lockbox("set", "k", "--prefix", "a", text: "of a")
        sandbox.environment["LOCKBOX_KEY_PREFIX"] = "b"
        try sandbox.lockbox("set", "k", text: "of b")
        #expect(try sandbox.lockbox("get", "k", "--prefix", "a").output == "of a")
        #expect(try sandbox.lockbox("get", "k", "--prefix", "b").output == "of b")
        #expect(try sandbox.lockbox("get", "k", "--prefix", "lockbox").status == 1)
    }

    @Test func theDirectoryCanBeGiven() throws {
        let script = "cd \"$0\" && printf v | \"$1\" set k --directory elsewhere"
        let shell = sandbox.execution(
            ["-c", script, sandbox.home, Sandbox.executable],
            executable: "/bin/sh"
        )
        #expect(try shell.run().status == 0)
        #expect(try sandbox.lockbox("get", "k", "--directory", "\(sandbox.home)/elsewhere").output == "v")
        #expect(!FileManager.default.fileExists(atPath: sandbox.store))
    }

    @Test func allNaughtyStringsComeBack() throws {
        guard let strings = try TestData.naughtyStrings() else { return }
        for string in strings {
            #expect(try sandbox.lockbox("set", "naughty", "--allow-empty", text: string).status == 0)
            let read = try sandbox.lockbox("get", "naughty")
            #expect(read.bytes == Data(string.utf8), "\(string.debugDescription)")
        }
    }

    @Test(arguments: ["-k", "--help", "--", "a b", "ключ", "a/b", "$(k)", "`k`", "\u{1F511}", "a\nb"])
    func anyTextIsAKey(_ key: String) throws {
        #expect(try sandbox.lockbox("set", "--", key, text: "v").status == 0)
        #expect(try sandbox.lockbox("get", "--", key).output == "v")
        #expect(try sandbox.library().allKeys() == [key])
        #expect(try sandbox.lockbox("remove", "--", key).status == 0)
    }

    // MARK: list, info, remove, clear

    @Test func listPrintsKeysInOrder() throws {
        for key in ["b", "a", "c\u{1B}[2J\n"] { try sandbox.lockbox("set", key, text: "v") }
        #expect(try sandbox.lockbox("list").output == "a\nb\nc\\u{1B}[2J\\n\n")
    }

    @Test func listAsJSON() throws {
        try sandbox.library().archiveObject(
            "v",
            forKey: "k\n",
            options: WriteOptions(accessibility: .always, label: "a label")
        )
        struct Item: Decodable {
            var key, `class`, format: String
            var created, modified: Date
            var expires: Date?
            var size: Int
            var label, comment: String?
        }
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        let items = try decoder.decode([Item].self, from: try sandbox.lockbox("list", "--json").bytes)
        #expect(items.count == 1)
        #expect(items.first?.key == "k\n" && items.first?.class == "always" && items.first?.format == "JSON")
        #expect(items.first?.size == 3 && items.first?.label == "a label" && items.first?.comment == nil)
        let info = try decoder.decode(Item.self, from: try sandbox.lockbox("info", "k\n", "--json").bytes)
        #expect(info.key == "k\n" && info.created == info.modified)
    }

    @Test func aTableFitsTheTerminal() throws {
        let label = String(repeating: "長い", count: 40)
        try sandbox.lockbox("set", String(repeating: "k", count: 70), "--label", label, text: "v")
        var execution = sandbox.execution(["list", "--long"])
        execution.terminal = [0, 1, 2]
        execution.size = (columns: 100, rows: 24)
        let lines = try execution.run().screen.split(whereSeparator: \.isNewline)
        #expect(lines.count == 2)
        for line in lines {
            let plain = line.replacing("\u{1B}[1m", with: "").replacing("\u{1B}[0m", with: "")
            #expect(plain.reduce(0) { $0 + ($1 == "長" || $1 == "い" ? 2 : 1) } <= 100, "\(plain)")
        }
        #expect(lines[0].hasPrefix("\u{1B}[1mKEY"))
        // Elsewhere nothing is cut.
        #expect(try sandbox.lockbox("list", "--long").output.contains(label))
    }

    @Test func colorIsOnlyForTerminalsThatWantIt() throws {
        try sandbox.lockbox("set", "k", text: "v")
        #expect(try sandbox.lockbox("list", "--long", typing: []).screen.contains("\u{1B}["))
        #expect(try !sandbox.lockbox("list", "--long").output.contains("\u{1B}["))
        sandbox.environment["NO_COLOR"] = "1"
        #expect(try !sandbox.lockbox("list", "--long", typing: []).screen.contains("\u{1B}["))
    }

    @Test func infoShowsEverythingButTheValue() throws {
        try sandbox.lockbox("set", "k", "--label", "Web shop", text: "hunter2")
        let info = try sandbox.lockbox("info", "k")
        #expect(info.output.contains("Web shop") && info.output.contains("whenUnlocked"))
        #expect(info.output.contains("9 bytes") && !info.output.contains("hunter2"))
    }

    @Test func removeTellsWhatWasNotThere() throws {
        for key in ["a", "b"] { try sandbox.lockbox("set", key, text: "v") }
        let removed = try sandbox.lockbox("remove", "a", "none", "b")
        #expect(removed.status == 1 && removed.error.contains("\"none\""))
        #expect(try sandbox.lockbox("list").output == "")
        #expect(try sandbox.lockbox("remove", "a").status == 1)
    }

    /// Whatever keeps it from being read.
    @Test func whatCannotBeReadIsRemoved() throws {
        try sandbox.lockbox("set", "k", "--class", "always", text: "v")
        let strict = ["--minimum-class", "afterFirstUnlock"]
        #expect(try sandbox.execution(["get", "k"] + strict).run().status == 3)
        #expect(try sandbox.execution(["remove", "k"] + strict).run().status == 0)
        #expect(try sandbox.execution(["remove", "k"] + strict).run().status == 1)
        #expect(try sandbox.lockbox("list").output == "")

        try sandbox.lockbox("set", "k", text: "v")
        for path in try FileManager.default.subpathsOfDirectory(atPath: "\(sandbox.store)/items") {
            let item = "\(sandbox.store)/items/\(path)"
            if path.contains("/"), !path.hasSuffix("/lock") { try #require(chmod(item, 0) == 0) }
        }
        // Root can read any file, unless it has given up that capability.
        let isRoot = geteuid() == 0
        let limited = ["--bounding-set", "-dac_override,-dac_read_search", Sandbox.executable]
        func run(_ arguments: [String]) throws -> Outcome {
            isRoot
                ? try sandbox.execution(limited + arguments, executable: "/usr/bin/setpriv").run()
                : try sandbox.execution(arguments).run()
        }
        if isRoot, !FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv") { return }
        #expect(try run(["get", "k"]).status == 74)
        #expect(try run(["remove", "k"]).status == 0)
        #expect(try run(["remove", "k"]).status == 1)
    }

    /// An error that is about the whole store says nothing about an item.
    @Test func nothingIsRemovedFromAStoreThatCannotBeRead() throws {
        try sandbox.lockbox("set", "k", text: "v")
        try #require(chmod("\(sandbox.store)/items", 0o777) == 0)
        #expect(try sandbox.lockbox("remove", "k").status == 74)
        try #require(chmod("\(sandbox.store)/items", 0o700) == 0)
        #expect(try sandbox.lockbox("get", "k").output == "v")
    }

    @Test func expiredItemsAreThereOnRequest() throws {
        for key in ["k", "other"] { try sandbox.lockbox("set", key, text: "v") }
        #expect(try sandbox.lockbox("change", "k", "--expires", "1s").status == 0)
        while try sandbox.lockbox("get", "k").status == 0 { usleep(50_000) }
        #expect(try sandbox.lockbox("get", "k").error.contains("has expired. Revive it"))
        #expect(try sandbox.lockbox("list").output == "other\n")
        #expect(try sandbox.lockbox("list", "--expired").output == "k\n")
        #expect(try sandbox.library().list(includingExpired: true).items.keys.contains("k"))
        #expect(try sandbox.lockbox("info", "k").output.contains("(expired)"))
        #expect(try sandbox.lockbox("get", "k", "--expired").output == "v")
        let run = try sandbox.lockbox("exec", "--", "sh", "-c", "echo ${K-none} $OTHER")
        #expect(run.output == "none v\n" && run.error.contains("It is left out"))
        #expect(try sandbox.lockbox("move", "k", "moved").status == 0)
        #expect(try sandbox.lockbox("list", "--expired").output == "moved\n")
        #expect(try sandbox.lockbox("change", "moved", "--label", "l").status == 1)
        #expect(try sandbox.lockbox("change", "moved", "--expires", "never").status == 0)
        #expect(try sandbox.lockbox("get", "moved").output == "v")
    }

    /// Dates are shown in this zone, too.
    @Test func aDayBeginsInTheLocalTimeZone() throws {
        sandbox.environment["TZ"] = "America/New_York"
        try sandbox.lockbox("set", "k", "--expires", "2099-12-24", text: "v")
        #expect(try sandbox.lockbox("info", "k").output.contains("expires   2099-12-24 00:00"))
    }

    @Test func clearIsForOnePrefix() throws {
        for prefix in ["p", "q"] { try sandbox.lockbox("set", "k", "--prefix", prefix, text: "v") }
        let refused = try sandbox.lockbox("clear", "--prefix", "p")
        #expect(refused.status == 2 && refused.error.contains("use --yes to remove 1 item with the prefix p"))
        #expect(try sandbox.lockbox("list", "--prefix", "p").output == "k\n")
        #expect(try sandbox.lockbox("clear", "--prefix", "p", "--yes").output == "items removed: 1\n")
        #expect(try sandbox.lockbox("list", "--prefix", "p").output == "")
        #expect(try sandbox.lockbox("list", "--prefix", "q").output == "k\n")
    }

    @Test func clearAsksAtATerminal() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let asked = try sandbox.lockbox(
            "clear",
            typing: [.init("Remove 1 item with the prefix lockbox? [y/N]", "\n")]
        )
        #expect(asked.status == 4)
        #expect(try sandbox.lockbox("list").output == "k\n")
        #expect(try sandbox.lockbox("clear", typing: [.init("[y/N]", "y\n")]).status == 0)
        #expect(try sandbox.lockbox("list").output == "")
        try sandbox.lockbox("set", "k", text: "v")
        #expect(try sandbox.lockbox("clear", "--yes", typing: []).status == 0)
    }

    // MARK: At a terminal

    @Test func aValueIsAskedForAndNotShown() throws {
        let stored = try sandbox.lockbox("set", "k", typing: [.init("Value: ", "hunter2\n")])
        #expect(stored.status == 0 && !stored.screen.contains("hunter2"))
        // At a terminal a newline follows.
        #expect(try sandbox.lockbox("get", "k", typing: []).screen == "hunter2\r\n")
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
    }

    @Test(arguments: [("\u{3}", SIGINT), ("\u{1C}", SIGQUIT)])
    func aSignalGivesTheEchoBack(_ key: String, _ number: Int32) throws {
        // A shell starts background jobs with this signal ignored.
        signal(number, SIG_DFL)
        var execution = sandbox.execution(["set", "k"])
        execution.terminal = [0, 1, 2]
        execution.answers = [.init("Value: ", "hun\(key)")]
        var hasEcho = false
        execution.inspect = { hasEcho = $0.c_lflag & tcflag_t(ECHO) != 0 }
        #expect(try execution.run().status == -number)
        #expect(hasEcho)
        #expect(try sandbox.lockbox("get", "k").status == 1)
    }

    @Test func theEndOfInputIsNoValue() throws {
        #expect(try sandbox.lockbox("set", "k", typing: [.init("Value: ", "\u{4}")]).status == 2)
        #expect(try sandbox.lockbox("get", "k").status == 1)
    }
}
