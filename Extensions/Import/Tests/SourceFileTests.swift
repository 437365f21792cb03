import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Rules for files of every format.
@Suite struct SourceFileTests: SourceFileFixture {
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

    @Test func notUTF8() {
        for format in SourceFile.Format.allCases {
            #expect(throws: SourceError.notUTF8) {
                try SourceFile(bytes: [0x41, 0x3D, 0xFF], format: format)
            }
        }
    }

    @Test func everyLengthAndBit() throws {
        let texts: [(String, SourceFile.Format)] = [
            ("# c\nA=b # c\nexport B='x\ny'\nC=\"a\\nb\"\n", .environment(.common)),
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
