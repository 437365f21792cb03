import Foundation
import Testing

@testable import LockboxCore
@testable import LockboxStore

/// The metadata in an item, with its searchable attributes.
@Suite struct ItemMetadataTests {
    private let metadata: ItemMetadata

    init() throws {
        let attributes = try ItemAttributes(
            accessibility: .always,
            created: Date(timeIntervalSinceReferenceDate: 1),
            modified: Date(timeIntervalSinceReferenceDate: 2),
            expires: Date(timeIntervalSinceReferenceDate: 3),
            label: "label",
            comment: "comment",
            searchable: ["name": "text"],
            size: 4,
            format: .json
        )
        metadata = ItemMetadata(key: try ItemKey(prefix: "p", key: "key"), attributes: attributes)
    }

    private func plaintext() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: metadata.plaintextLength)
        bytes.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            metadata.write(to: &writer)
        }
        return bytes
    }

    private func opened(_ bytes: [UInt8]) -> ItemMetadata? {
        bytes.withUnsafeBytes { try? ItemMetadata($0, accessibility: .always) }
    }

    @Test func whatIsWrittenIsRead() {
        #expect(ItemMetadata.boxLengths == 328...33_352, "as OnDiskFormat.md says")
        #expect(opened(plaintext())?.key == metadata.key)
        #expect(opened(plaintext())?.attributes == metadata.attributes)
    }

    /// A newer version must not be taken for this one, and padding carries nothing.
    @Test func unknownFlagsAndOtherPaddingAreRefused() {
        for flag: UInt8 in [8, 16, 32, 64, 128] {
            var bytes = plaintext()
            bytes[29] |= flag
            #expect(opened(bytes) == nil, "\(flag)")
        }
        for offset in plaintext().indices.reversed().prefix(while: { plaintext()[$0] == 0 }) {
            var bytes = plaintext()
            bytes[offset] = 1
            #expect(opened(bytes) == nil, "\(offset)")
        }
    }

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
