import Foundation
import Testing

@testable import LockboxCore
@testable import LockboxStore

/// The searchable attributes in an item's metadata.
@Suite struct SearchableAttributesTests {
    private func read(_ bytes: [UInt8]) -> [String: String]? {
        bytes.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            return SearchableAttributes.read(&reader)
        }
    }

    private func write(_ searchable: [String: String]) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: SearchableAttributes.length(searchable))
        bytes.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            SearchableAttributes.write(searchable, to: &writer)
        }
        return bytes
    }

    @Test func theBytesOfTheSpecification() {
        let bytes: [UInt8] = [2, 1, 0, 0, 0, 0x61, 1, 0, 2, 0, 0x62, 0x78, 0x79]
        #expect(write(["b": "xy", "a": ""]) == bytes)
        #expect(read(bytes) == ["b": "xy", "a": ""])
        #expect(write([:]).isEmpty)
    }

    @Test(
        arguments: [
            [], [0], [1], [1, 1, 0, 0], [1, 1, 0, 5, 0, 0x61, 0x78], [1, 1, 0, 0, 0, 0xFF],
            // not in order, twice, and twice in another form
            [2, 1, 0, 0, 0, 0x62, 1, 0, 0, 0, 0x61], [2, 1, 0, 0, 0, 0x61, 1, 0, 0, 0, 0x61],
            [2, 3, 0, 0, 0, 0x65, 0xCC, 0x81, 2, 0, 0, 0, 0xC3, 0xA9],
        ] as [[UInt8]]
    )
    func everythingElseIsRefused(_ bytes: [UInt8]) { #expect(read(bytes) == nil) }
}
