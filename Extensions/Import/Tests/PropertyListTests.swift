import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Property lists, binary and in XML.
@Suite struct PropertyListTests: SourceFileFixture {
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
        // Both are written once more in the same way, so they are equal if nothing was lost.
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

    // MARK: XML

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
        "<integer>5x</integer>", "<integer>5 </integer>", "<integer/>",
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
}
