import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Property lists in XML as other programs than Foundation's writer make them: hexadecimal numbers and UTF-16.
@Suite struct XMLPropertyListTests: SourceFileFixture, MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    // MARK: Integers

    private static let integers: [(String, PropertyValue?)] = [
        ("0xDEADBEEF", .integer(0xDEAD_BEEF)), ("0xdeadbeef", .integer(0xDEAD_BEEF)),
        ("0XDeadBeef", .integer(0xDEAD_BEEF)), ("-0xDEADBEEF", .integer(-0xDEAD_BEEF)),
        ("+0x10", .integer(16)), ("0x0", .integer(0)), ("-0x0", .integer(0)),
        ("0x0000000000000000010", .integer(16)),
        ("0x7fffffffffffffff", .integer(.max)), ("0xFFFFFFFFFFFFFFFF", .unsigned(.max)),
        ("-0x8000000000000000", .integer(.min)), (" 5", .integer(5)), ("\n\t 0xA", .integer(10)),
        ("- 5", .integer(-5)), ("+5", .integer(5)), ("-0", .integer(0)), ("007", .integer(7)),
        ("18446744073709551615", .unsigned(.max)), ("-9223372036854775808", .integer(.min)),
        ("0x", nil), ("-0x", nil), ("x10", nil), ("0xG", nil), ("0x10 ", nil), ("0x-1", nil), ("0x+1", nil),
        ("--5", nil), ("-", nil), ("", nil), ("5 ", nil), ("DEADBEEF", nil), ("1e3", nil), ("0x1.8", nil),
        ("0x10000000000000000", nil), ("-0x8000000000000001", nil), ("-9223372036854775809", nil), ("٣", nil),
    ]

    @Test func integers() throws {
        for (text, expected) in Self.integers {
            let list = Self.xml("<key>A</key><integer>\(text)</integer><key>B</key><true/>")
            let file = try file(list, .propertyList)
            #expect(try file.value(forName: "B") == .boolean(true))
            #expect((try? file.value(forName: "A")) == expected, "\(text)")
            // Foundation reads the same number.
            let whole = try? PropertyListSerialization.propertyList(
                from: Data(list.utf8),
                options: [],
                format: nil
            )
            guard let expected, let number = (whole as? [String: Any])?["A"] as? NSNumber else { continue }
            #expect(try expected.decode(Int128.self) == Int128(number.stringValue), "\(text)")
        }
    }

    // MARK: UTF-16

    private static let encodings = [XMLEncoding.utf16(isBigEndian: true), .utf16(isBigEndian: false)]

    private static func text(_ entries: String, _ encoding: String?) -> String {
        let name = encoding.map { " encoding=\"\($0)\"" } ?? ""
        return "<?xml version=\"1.0\"\(name)?>\n<plist version=\"1.0\"><dict>\(entries)</dict></plist>\n"
    }

    private static let entries =
        "\n<key>A</key><string>ü🔑</string>\n<!-- ü -->\n<key>B</key><integer>0xF</integer>\n"

    @Test(arguments: 0..<2, [nil, "UTF-16", "utf-16"]) func utf16(_ order: Int, _ name: String?) throws {
        let encoding = Self.encodings[order]
        for mark in ["\u{FEFF}", ""] {
            let text = mark + Self.text(Self.entries, name)
            let bytes = encoding.bytes(of: Array(text.utf8))
            // Written by Foundation, which adds no mark for a given order.
            let foundations = text.data(using: order == 0 ? .utf16BigEndian : .utf16LittleEndian)
            #expect(Data(bytes) == foundations)
            let file = try SourceFile(bytes: bytes, format: .propertyList)
            #expect(file.names == ["A", "B"])
            #expect(try file.value(forName: "A") == .string("ü🔑"))
            #expect(try file.value(forName: "B") == .integer(15))
            let rest = text.replacingOccurrences(of: "\n<key>A</key><string>ü🔑</string>", with: "")
            #expect(try file.removing(["A"]) == encoding.bytes(of: Array(rest.utf8)))
        }
    }

    @Test func utf16OfOneOrder() throws {
        for (order, name) in ["UTF-16BE", "UTF-16LE"].enumerated() {
            let text = Array(Self.text(Self.entries, name).utf8)
            #expect(
                try SourceFile(bytes: Self.encodings[order].bytes(of: text), format: .propertyList).names
                    .count == 2
            )
            #expect(throws: SourceError.self) {
                try SourceFile(bytes: Self.encodings[1 - order].bytes(of: text), format: .propertyList)
            }
        }
    }

    @Test func noUTF16() {
        func fault(_ bytes: [UInt8]) -> SourceError? {
            do { _ = try SourceFile(bytes: bytes, format: .propertyList) } catch { return error }
            return nil
        }
        let contradiction = SourceError.unsupported(
            "it is not in the encoding that its XML declaration names"
        )
        for encoding in Self.encodings {
            func bytes(_ text: String) -> [UInt8] { encoding.bytes(of: Array(("\u{FEFF}" + text).utf8)) }
            let fine = bytes(Self.text(Self.entries, "UTF-16"))
            #expect(fault(fine) == nil)
            #expect(fault(bytes(Self.text(Self.entries, "UTF-8"))) == contradiction)
            #expect(fault(fine + [0]) == .malformed("its UTF-16 is cut short"))
            #expect(fault(fine + [0, 0]) == .malformed("it contains a zero byte"))
            let surrogate = bytes("x").suffix(2).map { UInt8($0 == 0 ? 0xD8 : 0) }
            #expect(fault(fine + surrogate) == .malformed("its UTF-16 has an unpaired surrogate"))
            // Every length, and a bit of every byte: nothing crashes, and what is read can be removed.
            for index in fine.indices {
                var other = fine
                other[index] ^= 1 << (index % 8)
                for candidate in [other, Array(fine[..<index])] {
                    guard let file = try? SourceFile(bytes: candidate, format: .propertyList) else {
                        continue
                    }
                    #expect((try? file.removing(Set(file.names.prefix(1)))) != nil)
                }
            }
        }
        #expect(fault(Array(Self.text(Self.entries, "UTF-16").utf8)) == contradiction)
        #expect(fault(Array(Self.text(Self.entries, "ISO-8859-1").utf8)) == contradiction)
    }

    @Test func aFileInUTF16() throws {
        let encoding = Self.encodings[1]
        let text = "\u{FEFF}" + Self.text(Self.entries, "UTF-16")
        let path = try file("settings.plist", encoding.bytes(of: Array(text.utf8)))
        let migration = Migration("m", from: .propertyList(at: path), .string("A"))
        #expect(try lockbox.migrate(migration).isComplete)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "A") == "ü🔑")
        let rest = text.replacingOccurrences(of: "\n<key>A</key><string>ü🔑</string>", with: "")
        #expect(try readBytes(path) == encoding.bytes(of: Array(rest.utf8)))
    }
}
