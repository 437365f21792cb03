import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// JSON files.
@Suite struct JSONTextTests: SourceFileFixture {
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
        "{\"A\":[1,]}", "{\"A\":[1}", "{} x", "{}{}", "// c\n{}", "{\"A\":1,\"A\":2}",
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

    /// Windows programs begin a file with one.
    @Test func aByteOrderMark() throws {
        let text = "\u{FEFF}{\"A\": 1, \"B\": 2}"
        #expect(try value(text, .json) == .integer(1))
        #expect(try removing("A", from: text, .json) == "\u{FEFF}{\"B\": 2}")
    }
}
