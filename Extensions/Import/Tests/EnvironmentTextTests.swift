import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Files of environment variables.
@Suite struct EnvironmentTextTests: SourceFileFixture {
    private func environment(_ text: String) throws -> [String: String] {
        let file = try file(text, .environment(.common))
        return try Dictionary(
            uniqueKeysWithValues: file.names.map { ($0, try file.value(forName: $0).decode(String.self)) }
        )
    }

    /// Read as dotenv for Node.js and Compose both read it, or refused.
    @Test(
        arguments: [
            ("", [:]), ("\n\n  \n# A=b\n  # c\n", [:]), ("A=b", ["A": "b"]), ("A=b\n", ["A": "b"]),
            ("A=b\r\nB=c\r\n", ["A": "b", "B": "c"]), ("\u{FEFF}A=b", ["A": "b"]), (" A = b ", ["A": "b"]),
            ("export A=b\nexport\tB=c", ["A": "b", "B": "c"]), ("export=b", ["export": "b"]),
            ("A=", ["A": ""]), ("A=\nB=c", ["A": "", "B": "c"]), ("A=   ", ["A": ""]), ("A=\"\"", ["A": ""]),
            ("A=b c  d", ["A": "b c  d"]), ("A=b # c", ["A": "b"]), ("A=b\t# c # d", nil),
            ("A=b #c", ["A": "b"]),
            ("A=b=c==", ["A": "b=c=="]), ("A=it's \"x\"", ["A": "it's \"x\""]), ("A=a\\nb", ["A": "a\\nb"]),
            ("A=ü🔑", ["A": "ü🔑"]), ("_a.b-c1=d", ["_a.b-c1": "d"]), ("A={\"k\": 1}", ["A": "{\"k\": 1}"]),
            ("A='b # c $d \\n `\"'", ["A": "b # c $d \\n `\""]), ("A='b\nc'\nB=d", ["A": "b\nc", "B": "d"]),
            ("A=\"b # 'c'\" # d", ["A": "b # 'c'"]), ("A=\" b \"#c", ["A": " b "]),
            ("A=\"b\\nc\\rd\"", ["A": "b\nc\rd"]),
            (
                "A=\"-----BEGIN\nx=\n\n# y\n-----END\"\nB=c",
                ["A": "-----BEGIN\nx=\n\n# y\n-----END", "B": "c"]
            ),
            // The two read these differently, or they are no lines at all.
            ("A", nil), ("A B=c", nil), ("=b", nil), ("1A=b", nil), ("A: b", nil), ("A-=b\nexport =c", nil),
            ("A=#b", nil), ("A= #b", nil), ("A=b#c", nil), ("A=b#c # d", nil), ("A=$B", nil), ("A=b$", nil),
            ("A=\"$B\"", nil), ("A=`b`", nil), ("A=\"b\\\"c\"", nil), ("A=\"b\\tc\"", nil),
            ("A=\"b\\\\\"", nil),
            ("A='it\\'s'", nil), ("A='b\\'", nil), ("A=\"b", nil), ("A='b", nil), ("A=\"b\" c", nil),
            ("A=\"b\"c", nil),
            ("A='b' B=c", nil), ("A=\"b\r\nc\"", nil), ("A=b\rB=c", nil), ("A=\u{A0}b", nil),
            ("A=b\u{2003}", nil),
            ("A=b\u{2028}B=c", nil), ("# c\u{2028}A=b", nil), ("A=b\u{0B}c", nil), ("A=\0", nil),
            ("A=b\nA=c", nil),
            ("A=b\nexport A=b", nil), ("ü=b", nil), ("'A'=b", nil), ("[A]=b", nil),
        ] as [(String, [String: String]?)]
    )
    func environmentLines(_ text: String, expected: [String: String]?) throws {
        guard let expected else {
            #expect(fault(text, .environment(.common)) != nil)
            return
        }
        #expect(try environment(text) == expected)
    }

    @Test func environmentWithoutNames() throws {
        let text = "\u{FEFF}# top\r\nA=b # x\r\n\r\nexport B='c\nd'\n  C=\"e\\nf\"  # y\nD=g"
        #expect(try file(text, .environment(.common)).names == ["A", "B", "C", "D"])
        #expect(try removing(from: text, .environment(.common)) == text)
        #expect(try removing("X", from: text, .environment(.common)) == text)
        #expect(
            try removing("A", from: text, .environment(.common))
                == "\u{FEFF}# top\r\n\r\nexport B='c\nd'\n  C=\"e\\nf\"  # y\nD=g"
        )
        #expect(
            try removing("B", "D", from: text, .environment(.common))
                == "\u{FEFF}# top\r\nA=b # x\r\n\r\n  C=\"e\\nf\"  # y\n"
        )
        #expect(
            try removing("A", "B", "C", "D", from: text, .environment(.common)) == "\u{FEFF}# top\r\n\r\n"
        )
    }

    /// So that one look at the file is enough.
    @Test func everyLineThatIsRefusedIsNamed() throws {
        let text = "A=$B\nB=s3cret\n1=b\nC=\"$x\n$y\"\nD=a#b\nA=d\nE\nF='open\nG=$z\n"
        #expect(
            fault(text, .environment(.common))?.description
                == "it cannot be read without loss: a value contains $, which may be expanded as a variable, in lines 1, 4, 5, 10; "
                + "a name does not begin with a letter, in line 3; an unquoted value contains #, in line 6; "
                + "A occurs for the second time, after line 1, in line 7; a name is not followed by =, in line 8; "
                + "a quoted value is not closed, in line 9; in single quotes a value is read as it is, and the docker dialect keeps everything after ="
        )
    }

    /// Read as the program of that name reads it, or refused.
    @Test(
        arguments: [
            (
                .docker, "A=abc#def $x \\n 'q' # c\n#B=c\nC=\nx.y-z=1",
                ["A": "abc#def $x \\n 'q' # c", "C": "", "x.y-z": "1"]
            ),
            (.docker, "A", nil), (.docker, "A B=c", nil), (.docker, "=b", nil), (.docker, "A=b\nA=c", nil),
            (.docker, "export A=b", nil), (.docker, "  A=b ", ["A": "b "]),
            (.dotenv, "A=abc#def\nB=$x\nC=`a'b`\nD=a\\b", ["A": "abc", "B": "$x", "C": "a'b", "D": "a\\b"]),
            (.dotenv, "A=\"a$b\\nc\\td\"\nB='a\\nb'", ["A": "a$b\nc\\td", "B": "a\\nb"]),
            (.dotenv, "A=\"b", nil), (.dotenv, "A=b\nA=c", nil), (.dotenv, "A=b\u{2028}B=c", nil),
            (.docker, "\u{A0}A=b", nil), (.docker, "\u{0B}A=b", nil), (.docker, "A\u{A0}=b", nil),
        ] as [(EnvironmentDialect, String, [String: String]?)]
    )
    func dialects(_ dialect: EnvironmentDialect, _ text: String, expected: [String: String]?) throws {
        let format = SourceFile.Format.environment(dialect)
        guard let expected else { return #expect(fault(text, format) != nil) }
        let file = try file(text, format)
        for (name, value) in expected { #expect(try file.value(forName: name).decode(String.self) == value) }
        #expect(file.names.count == expected.count)
    }

    /// A real shell reads the same, unless the text is refused.
    @Test func theShellsDialectIsTheShells() throws {
        let read = [
            "A=b", "A=", "A='b c'", "A=\"b c\"", "A=a#b", "A=a #b", "A=\"a\"'b'c", "A=a\\ b", "A=\"a\\\"b\"",
            "A=\"a\\nb\"",
            "A='a\\nb'", "A=\"a\\\\b\"", "A='a\nb'", "A=\"a\nb\"", "A=a\\\nb", "A=\"a\\\nb\"", "A=\"\\$x\"",
            "A=a*b", "A=a=b",
            "export A=b", "A=a\\\\", "A=ü", "A='#'", "A=a~b", "A=\\~", "A='$x'", "A=\"'\"", "A=\"\\`\"",
            "  A=b  ",
        ]
        for text in read {
            let own = try file(text, .environment(.shell)).value(forName: "A").decode(String.self)
            #expect(try shell(text) == own, "\(text)")
        }
        for text in [
            "A=$x", "A=`x`", "A=\"$x\"", "A=\"`x`\"", "A=~", "A=a:~", "A=a;b", "A=a&b", "A=a|b", "A=<b",
            "A=(b)", "A=a b", "A = b",
            "A-B=c", "A='b", "A=\"b", "A=b\r\n", "B", "A=b\nA=c", "A=b\\", "\u{FEFF}A=b", "export A={a,b}",
        ] { #expect(fault(text, .environment(.shell)) != nil, "\(text)") }
    }

    private func shell(_ text: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "eval \"$1\"; printf %s \"$A\"", "sh", text]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: bytes, as: UTF8.self)
    }
}
