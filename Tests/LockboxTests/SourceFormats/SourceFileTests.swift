import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// Files in which programs keep secrets in the clear.
@Suite struct SourceFileTests {
    private func file(_ text: String, _ format: SourceFile.Format) throws(SourceError) -> SourceFile {
        try SourceFile(bytes: Array(text.utf8), format: format)
    }

    private func fault(_ text: String, _ format: SourceFile.Format) -> SourceError? {
        do { _ = try file(text, format) } catch { return error }
        return nil
    }

    private func value(_ text: String, _ format: SourceFile.Format, _ name: String = "A") throws
        -> PropertyValue
    {
        try file(text, format).value(forName: name)
    }

    private func removing(_ names: String..., from text: String, _ format: SourceFile.Format) throws -> String
    {
        String(decoding: try file(text, format).removing(Set(names)), as: UTF8.self)
    }

    private func pairs(_ pairs: [(String, PropertyValue)]) -> PropertyValue {
        .dictionary(pairs.map { PropertyValue.Pair(key: .string($0), value: $1) })
    }

    // MARK: .env

    private func environment(_ text: String) throws -> [String: String] {
        let file = try file(text, .environment)
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
            // What the two read differently, or what is no line at all.
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
            #expect(fault(text, .environment) != nil)
            return
        }
        #expect(try environment(text) == expected)
    }

    @Test func environmentWithoutNames() throws {
        let text = "\u{FEFF}# top\r\nA=b # x\r\n\r\nexport B='c\nd'\n  C=\"e\\nf\"  # y\nD=g"
        #expect(try file(text, .environment).names == ["A", "B", "C", "D"])
        #expect(try removing(from: text, .environment) == text)
        #expect(try removing("X", from: text, .environment) == text)
        #expect(
            try removing("A", from: text, .environment)
                == "\u{FEFF}# top\r\n\r\nexport B='c\nd'\n  C=\"e\\nf\"  # y\nD=g"
        )
        #expect(
            try removing("B", "D", from: text, .environment)
                == "\u{FEFF}# top\r\nA=b # x\r\n\r\n  C=\"e\\nf\"  # y\n"
        )
        #expect(try removing("A", "B", "C", "D", from: text, .environment) == "\u{FEFF}# top\r\n\r\n")
    }

    // MARK: JSON

    @Test(
        arguments: [
            ("null", .null), ("true", .boolean(true)), ("false", .boolean(false)), ("0", .integer(0)),
            ("-9223372036854775808", .integer(.min)), ("9223372036854775808", .unsigned(1 << 63)),
            ("1.5", .real(1.5)), ("-0.0", .real(-0.0)), ("-0", .real(-0.0)), ("1e2", .real(100)),
            ("1.10E+1", .real(11)),
            ("0.1", .real(0.1)), ("0.10000000000000001", .real(0.1)),
            ("5e-324", .real(.leastNonzeroMagnitude)),
            ("1.7976931348623157e308", .real(.greatestFiniteMagnitude)), ("0e999", .real(0)),
            ("100.0", .real(100)),
            (#""""#, .string("")), (#""a\"\\\/\b\f\n\r\tü""#, .string("a\"\\/\u{8}\u{C}\n\r\tü")),
            (#""\u00fc\uD83D\uDD11\u0000""#, .string("ü🔑\0")), ("[]", .array([])),
            ("[ 1 , [ ] ]", .array([.integer(1), .array([])])),
            ("{}", .dictionary([])),
            ("{ \"b\" : 1 }", .dictionary([PropertyValue.Pair(key: .string("b"), value: .integer(1))])),
        ] as [(String, PropertyValue)]
    )
    func json(_ text: String, expected: PropertyValue) throws {
        #expect(try value("{\"A\": \(text)}", .json) == expected)
        #expect(try value(" {\"x\" : 1,\n\"A\":\t\(text) , \"y\":2}\r\n", .json) == expected)
        if case .real(let number) = expected, case .real(let read) = try value("{\"A\": \(text)}", .json) {
            #expect(read.bitPattern == number.bitPattern)
        }
    }

    @Test(arguments: [
        "", " ", "{", "}", "{\"A\"}", "{\"A\":}", "{\"A\":1,}", "{,}", "{\"A\":1 \"B\":2}", "{A:1}",
        "{'A':1}",
        "{\"A\":01}", "{\"A\":+1}", "{\"A\":1.}", "{\"A\":.5}", "{\"A\":1e}", "{\"A\":-}", "{\"A\":NaN}",
        "{\"A\":tru}", "{\"A\":nullx}", "{\"A\":\"}", "{\"A\":\"\n\"}", "{\"A\":\"\\x\"}",
        "{\"A\":\"\\u12\"}",
        "{\"A\":\"\\u+123\"}", "{\"A\":\"\\ud800\"}", "{\"A\":\"\\udc00\"}", "{\"A\":\"\\ud800\\u0041\"}",
        "{\"A\":[1,]}", "{\"A\":[1}", "{} x", "{}{}", "\u{FEFF}{}", "// c\n{}", "{\"A\":1,\"A\":2}",
        "{\"A\":{\"b\":1,\"b\":2}}", "[1]", "5", "\"A\"",
    ])
    func noJSON(_ text: String) { #expect(fault(text, .json) != nil) }

    /// Such a number spoils its own entry, not the others.
    @Test(arguments: [
        "18446744073709551616", "-9223372036854775809", "9007199254740993.0", "1e400", "-1e400", "1e-400",
        "0.1000000000000000055", "123456789012345678901234567890", "1e99999999999999999999",
        "[{\"c\": 1e999}]",
    ])
    func numbersThatCannotBeKept(_ number: String) throws {
        let file = try file("{\"A\": \(number), \"B\": 2}", .json)
        #expect(
            throws: SourceError.unsupported("a number has more digits than can be stored exactly, in line 1")
        ) {
            try file.value(forName: "A")
        }
        #expect(try file.value(forName: "B") == .integer(2))
        #expect(try removing("A", from: "{\"A\": \(number), \"B\": 2}", .json) == "{\"B\": 2}")
    }

    @Test func jsonWithoutNames() throws {
        let text = "{\n  \"A\": 1,\n  \"B\": {\"c\": [1, 2]},\n  \"C\": \"x\"\n}\n"
        #expect(try file(text, .json).names == ["A", "B", "C"])
        #expect(try removing("A", from: text, .json) == "{\n  \"B\": {\"c\": [1, 2]},\n  \"C\": \"x\"\n}\n")
        #expect(try removing("B", from: text, .json) == "{\n  \"A\": 1,\n  \"C\": \"x\"\n}\n")
        #expect(try removing("C", from: text, .json) == "{\n  \"A\": 1,\n  \"B\": {\"c\": [1, 2]}\n}\n")
        #expect(try removing("A", "B", from: text, .json) == "{\n  \"C\": \"x\"\n}\n")
        #expect(try removing("A", "C", from: text, .json) == "{\n  \"B\": {\"c\": [1, 2]}\n}\n")
        #expect(try removing("A", "B", "C", from: text, .json) == "{\n  \n}\n")
        #expect(try removing("\u{FC}", from: #"{"\u00fc":1,"b":2}"#, .json) == #"{"b":2}"#)
    }

    @Test func depth() {
        for depth in [126, 127, 128, 100_000] {
            let json =
                "{\"A\":" + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}"
            let xml = Self.xml(
                "<key>A</key>" + String(repeating: "<array>", count: depth)
                    + String(repeating: "</array>", count: depth)
            )
            #expect((fault(json, .json) == nil) == (depth < 128))
            #expect((fault(xml, .propertyList) == nil) == (depth < 128))
        }
        #expect(fault("{\"A\":" + String(repeating: "[", count: 100_000), .json) == .tooDeep)
    }

    // MARK: netrc

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
        "machine a login b password c\nmachine a login b password d",
    ])
    func noNetrc(_ text: String) { #expect(fault(text, .netrc) != nil) }

    // MARK: Property lists

    private static func xml(_ entries: String) -> String {
        """
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0"><dict>\(entries)</dict></plist>
        """
    }

    private static var list: [String: Any] {
        [
            "text": "ü <&>\"' 🔑", "empty": "", "true": true, "false": false, "zero": 0, "integer": -5,
            "large": UInt64.max,
            "real": 0.1, "infinite": Double.infinity, "date": Date(timeIntervalSinceReferenceDate: 123_456),
            "before": Date(timeIntervalSinceReferenceDate: -40_000_000_000), "data": Data(0..<100),
            "no data": Data(),
            "array": [1, "a", [2.5]] as [Any], "dictionary": ["a": ["b": Data([1])]],
        ]
    }

    private static let values: [String: PropertyValue] = [
        "text": .string("ü <&>\"' 🔑"), "empty": .string(""), "true": .boolean(true), "false": .boolean(false),
        "zero": .integer(0), "integer": .integer(-5), "large": .unsigned(.max), "real": .real(0.1),
        "infinite": .real(.infinity), "date": .date(Date(timeIntervalSinceReferenceDate: 123_456)),
        "before": .date(Date(timeIntervalSinceReferenceDate: -40_000_000_000)), "data": .data(Data(0..<100)),
        "no data": .data(Data()),
        "array": .array([.integer(1), .string("a"), .array([.real(2.5)])]),
        "dictionary": .dictionary([
            PropertyValue.Pair(
                key: .string("a"),
                value: .dictionary([PropertyValue.Pair(key: .string("b"), value: .data(Data([1])))])
            )
        ]),
    ]

    @Test(arguments: [PropertyListSerialization.PropertyListFormat.binary, .xml])
    func propertyListsOfFoundation(_ format: PropertyListSerialization.PropertyListFormat) throws {
        let bytes = Array(
            try PropertyListSerialization.data(fromPropertyList: Self.list, format: format, options: 0)
        )
        let file = try SourceFile(bytes: bytes, format: .propertyList)
        #expect(Set(file.names) == Set(Self.values.keys))
        for (name, value) in Self.values { #expect(try file.value(forName: name) == value, "\(name)") }
        #expect(throws: SourceError.noSuchKey) { try file.value(forName: "x") }
        for name in file.names {
            let rest = try file.removing([name])
            let other = try SourceFile(bytes: rest, format: .propertyList)
            #expect(other.names == file.names.filter { $0 != name })
            for kept in other.names { #expect(try other.value(forName: kept) == Self.values[kept]) }
            // Foundation agrees.
            let list = try PropertyListSerialization.propertyList(from: Data(rest), options: [], format: nil)
            var expected = Self.list
            expected[name] = nil
            #expect((list as? NSDictionary) == expected as NSDictionary)
        }
        #expect(try SourceFile(bytes: file.removing(Set(file.names)), format: .propertyList).names.isEmpty)
    }

    @Test func removedBytesAreGone() throws {
        let list =
            ["a": "secret-one", "b": ["c": "secret-two", "d": "shared"], "e": "shared"] as [String: Any]
        for format in [PropertyListSerialization.PropertyListFormat.binary, .xml] {
            let bytes = Array(
                try PropertyListSerialization.data(fromPropertyList: list, format: format, options: 0)
            )
            let rest = try SourceFile(bytes: bytes, format: .propertyList).removing(["a", "b"])
            #expect(bytes.contains("secret".utf8) && !rest.contains("secret".utf8))
            #expect(
                try SourceFile(bytes: rest, format: .propertyList).value(forName: "e") == .string("shared")
            )
        }
    }

    /// Objects that no value can be had of stay as they are.
    @Test func removingKeepsEveryKindOfObject() throws {
        typealias Writer = PropertyListWriter
        let kept: [Writer.Node] = [
            .uid(5), .set([.null, .utf16([0xD800])]), .integer(5, size: 16), .single(0.1), .reference(0),
            .dictionary([(.integer(1, size: 1), .date(5))]), .array((0..<300).map { .integer($0, size: 8) }),
        ]
        let names = kept.indices.map { Writer.Node.ascii("k\($0)") }
        func list(_ more: [(Writer.Node, Writer.Node)]) -> [UInt8] {
            Writer.write(.dictionary(more + zip(names, kept)))
        }
        let rest = try SourceFile(bytes: list([(.ascii("x"), .data([1, 2, 3]))]), format: .propertyList)
            .removing(["x"])
        let expected = try SourceFile(bytes: list([]), format: .propertyList)
        let file = try SourceFile(bytes: rest, format: .propertyList)
        #expect(file.names == expected.names)
        // As both are written once more in the same way, they are equal if nothing was lost.
        #expect(try file.removing(["k4"]) == expected.removing(["k4"]))
        #expect(try file.value(forName: "k2") == .integer(5))
        #expect(throws: SourceError.unsupported("it contains a UID of a keyed archive")) {
            try file.value(forName: "k0")
        }
        #expect(throws: SourceError.self, "the whole, again") { try file.value(forName: "k4") }
        #expect(
            try file.value(forName: "k5")
                == .dictionary([
                    PropertyValue.Pair(
                        key: .integer(1),
                        value: .date(Date(timeIntervalSinceReferenceDate: 5))
                    )
                ])
        )
    }

    @Test(
        arguments: [
            ("<string>a&lt;&#252;&#xFC;&amp;amp;<![CDATA[<&]]>b</string>", .string("a<üü&amp;<&b")),
            ("<string/>", .string("")), ("<true></true>", .boolean(true)), ("<false />", .boolean(false)),
            ("<string> \n\ta </string>", .string(" \n\ta ")), ("<integer>007</integer>", .integer(7)),
            ("<real>0.10000000000000001</real>", .real(0.1)), ("<real>-infinity</real>", .real(-.infinity)),
            ("<data>\n\tAQ\n\tI=\n</data>", .data(Data([1, 2]))), ("<data/>", .data(Data())),
            ("<date>2000-02-29T23:59:59Z</date>", .date(Date(timeIntervalSince1970: 951_868_799))),
            ("<array><!-- c --><true/><!-- d --></array>", .array([.boolean(true)])),
            ("<array/>", .array([])),
            ("<dict/>", .dictionary([])),
        ] as [(String, PropertyValue)]
    )
    func xmlValues(_ text: String, expected: PropertyValue) throws {
        #expect(try value(Self.xml("<key>A</key>" + text), .propertyList) == expected)
        #expect(
            try value("<plist><dict><key>A</key>\(text)<key>B</key>\n\(text)</dict></plist>", .propertyList)
                == expected
        )
    }

    @Test(arguments: [
        "<integer>5x</integer>", "<integer>0x10</integer>", "<integer> 5</integer>", "<integer/>",
        "<integer>18446744073709551616</integer>", "<real>1e999</real>", "<real>x</real>",
        "<real>0x10</real>",
        "<date>2001-02-29T00:00:00Z</date>", "<date>2001-13-01T00:00:00Z</date>", "<date>2001-01-01</date>",
        "<date>2001-01-01T24:00:00Z</date>", "<date>0000-01-01T00:00:00Z</date>", "<data>A</data>",
        "<data>AR==</data>",
        "<string>a\rb</string>", "<array><string>a\r\nb</string></array>", "<string><![CDATA[\r]]></string>",
    ])
    func xmlValuesThatCannotBeKept(_ text: String) throws {
        let file = try file(Self.xml("<key>A</key>\(text)<key>B</key><true/>"), .propertyList)
        #expect(throws: SourceError.self) { try file.value(forName: "A") }
        #expect(try file.value(forName: "B") == .boolean(true))
    }

    @Test(arguments: [
        "", "<plist>", "<plist></plist>", "<plist><array/></plist>", "<plist><dict></plist>",
        "<plist><dict/></plist>x",
        "<dict/>", "<plist><dict/><dict/></plist>", xml("<key>A</key>"), xml("<true/>"), xml("A"),
        xml("<key>A</key><true/>x"), xml("<key>A</key><true>x</true>"), xml("<key>A</key><foo/>"),
        xml("<key>A</key><string>&foo;</string>"), xml("<key>A</key><string>&#0;</string>"),
        xml("<key>A</key><string>&#xD800;</string>"), xml("<key>A</key><string>a<b/></string>"),
        xml("<key>A</key><string><![CDATA[</string>"), xml("<!-- "), xml("<key>A</key><string>"),
        xml("<key>A</key><true/><key>A</key><false/>"),
        xml("<key>A</key><dict><key>b</key><true/><key>b</key><true/></dict>"),
        "<!DOCTYPE plist [<!ENTITY a \"b\">]><plist><dict/></plist>",
        "<?xml encoding=\"UTF-16\"?><plist><dict/></plist>",
        "{ A = b; }", "bplist00", "bplist15x",
    ])
    func noPropertyList(_ text: String) { #expect(fault(text, .propertyList) != nil) }

    @Test func xmlWithoutNames() throws {
        let text = Self.xml("\n\t<key>A</key>\n\t<string>a</string>\n\t<!-- c -->\n\t<key>B</key><true/>\n")
        #expect(
            try removing("A", from: text, .propertyList)
                == Self.xml("\n\t<!-- c -->\n\t<key>B</key><true/>\n")
        )
        #expect(
            try removing("B", from: text, .propertyList)
                == Self.xml("\n\t<key>A</key>\n\t<string>a</string>\n\t<!-- c -->\n")
        )
        #expect(try removing("A", "B", from: text, .propertyList) == Self.xml("\n\t<!-- c -->\n"))
    }

    @Test func notUTF8() {
        for format in SourceFile.Format.allCases {
            #expect(throws: SourceError.notUTF8) {
                try SourceFile(bytes: [0x41, 0x3D, 0xFF], format: format)
            }
        }
    }

    @Test func everyLengthAndBit() throws {
        let texts: [(String, SourceFile.Format)] = [
            ("# c\nA=b # c\nexport B='x\ny'\nC=\"a\\nb\"\n", .environment),
            (#"{"A": [1, -2.5e3, null], "B": "\u00e9\ud83d\ude00", "C": {"d": {}}}"#, .json),
            ("machine a login b password \"c\\\"\"\nmacdef d\ne\n\ndefault login f\n", .netrc),
            (
                Self.xml("<key>A</key><string>&lt;</string><key>B</key><array><real>1.5</real></array>"),
                .propertyList
            ),
        ]
        for (text, format) in texts {
            let original = Array(text.utf8)
            let cut = original.indices.map { Array(original[..<$0]) }
            let flipped = (0..<(original.count * 8)).map { bit in
                var bytes = original
                bytes[bit / 8] ^= 1 << (bit % 8)
                return bytes
            }
            for bytes in cut + flipped {
                guard let file = try? SourceFile(bytes: bytes, format: format) else { continue }
                for name in file.names {
                    let rest = try SourceFile(bytes: try file.removing([name]), format: format)
                    #expect(rest.names == file.names.filter { $0 != name })
                    for other in rest.names {
                        #expect((try? rest.value(forName: other)) == (try? file.value(forName: other)))
                    }
                }
            }
        }
    }
}
