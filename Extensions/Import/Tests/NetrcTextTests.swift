import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// netrc files.
@Suite struct NetrcTextTests: SourceFileFixture {
    private func pairs(_ pairs: [(String, PropertyValue)]) -> PropertyValue {
        .dictionary(pairs.map { PropertyValue.Pair(key: .string($0), value: $1) })
    }

    @Test func netrc() throws {
        let text = """
            # mine
            machine example.com login alice password s3cret#1
            machine example.com
              login "bob smith"   password "a \\"b\\" \\\\ #c"
              # why
              account staff

            macdef init
              machine not login a password machine

            machine "plain" password p
            default login anonymous password me@
            """
        let file = try file(text, .netrc)
        #expect(file.names == ["alice@example.com", "bob smith@example.com", "plain", "anonymous@default"])
        #expect(
            try file.value(forName: "alice@example.com")
                == pairs([
                    ("machine", .string("example.com")), ("login", .string("alice")),
                    ("password", .string("s3cret#1")),
                ])
        )
        #expect(
            try file.value(forName: "bob smith@example.com").decode([String: String].self)
                == [
                    "machine": "example.com", "login": "bob smith", "password": "a \"b\" \\ #c",
                    "account": "staff",
                ]
        )
        #expect(
            try file.value(forName: "plain")
                == pairs([("machine", .string("plain")), ("password", .string("p"))])
        )
        #expect(
            try file.value(forName: "anonymous@default").decode([String: String].self)
                == ["login": "anonymous", "password": "me@"]
        )
        let rest = try removing("alice@example.com", "plain", from: text, .netrc)
        #expect(
            rest
                == text.replacing("machine example.com login alice password s3cret#1\n", with: "")
                .replacing("machine \"plain\" password p\n", with: "")
        )
    }

    @Test func netrcOnOneLine() throws {
        let text = "machine a login b password c machine d login e password f\r\nmachine g"
        #expect(try file(text, .netrc).names == ["b@a", "e@d", "g"])
        #expect(try removing("b@a", from: text, .netrc) == "machine d login e password f\r\nmachine g")
        #expect(try removing("e@d", from: text, .netrc) == "machine a login b password c machine g")
        #expect(
            try removing("g", from: text, .netrc)
                == "machine a login b password c machine d login e password f\r\n"
        )
        #expect(try file("", .netrc).names == [])
        #expect(try file("macdef x\ny", .netrc).names == [])
    }

    @Test(arguments: [
        "machine", "machine a login", "machine a b", "login a", "machine a login b login c", "MACHINE a",
        "machine a password b\\c", "machine a password \"b", "machine a password \"b\\nc\"",
        "machine a password \"b\nc\"",
        "machine a password \"b\"c", "machine a # b\nlogin c", "machine a\nmachine a", "machine a\0",
        "machine a login b password c\nmachine a login b password d", "machine a password #b",
        "machine a login #b",
        "machine #a login b", "machine a password b\u{B}c", "machine a password b\u{C}c",
    ])
    func noNetrc(_ text: String) { #expect(fault(text, .netrc) != nil) }

    @Test func whatNeedsQuotes() throws {
        let file = try file("machine a password \"#b\\\\ \u{B}\u{C}\"", .netrc)
        #expect(try file.value(forName: "a").decode([String: String].self)["password"] == "#b\\ \u{B}\u{C}")
    }

    /// Emacs and other programs write it like this.
    @Test func netrcWithPortsAndUsers() throws {
        let text = """
            \u{FEFF}machine a port 993 user b password c
            machine a protocol smtp login b password d
            machine a login b password e

            """
        #expect(try file(text, .netrc).names == ["b@a:993", "b@a:smtp", "b@a"])
        #expect(
            try file(text, .netrc).value(forName: "b@a:993")
                == pairs([
                    ("machine", .string("a")), ("login", .string("b")), ("password", .string("c")),
                    ("port", .string("993")),
                ])
        )
        #expect(
            try removing("b@a:993", "b@a", from: text, .netrc)
                == "\u{FEFF}machine a protocol smtp login b password d\n"
        )
        #expect(fault("machine a login b user c", .netrc) != nil)
        #expect(fault("machine a s3cret", .netrc)?.description.contains("s3cret") == false)
    }
}
