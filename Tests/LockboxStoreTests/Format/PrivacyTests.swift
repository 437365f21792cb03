import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The knowledge of somebody who can read the files but has no key.
@Suite struct PrivacyTests {
    private let store: TestStore
    private let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox("com.example.visible-prefix")
    }

    private func contains(_ text: String) throws -> Bool {
        try store.snapshot().contains { path, entry in
            path.contains(text) || entry.bytes.map { Data($0).range(of: Data(text.utf8)) != nil } ?? false
        }
    }

    @Test("Promise 5: neither names nor values can be read from the files") func namesAndValues() throws {
        try lockbox.archiveObject(
            Data("visible-value".utf8),
            forKey: "visible-key",
            options: WriteOptions(label: "visible-label", comment: "visible-comment")
        )
        for text in ["visible-prefix", "visible-key", "visible-value", "visible-label", "visible-comment"] {
            #expect(try !contains(text), "\(text)")
        }
        try overwrite("\(store.directory)/control", Array("a visible-value".utf8))
        #expect(try contains("visible-value"), "the control")
    }

    @Test("Promise 5: equal values give different files") func equalValues() throws {
        let path = try store.path("key", prefix: "com.example.visible-prefix")
        var seen: Set<[UInt8]> = []
        for _ in 0..<100 {
            try lockbox.archiveObject("same", forKey: "key")
            seen.insert(Array(try readBytes(path)[ItemHeader.length...]))
        }
        #expect(seen.count == 100)
        // No nonce, commitment or block of ciphertext twice, at whatever place it stands.
        let pieces = seen.flatMap { bytes in
            stride(from: 0, to: bytes.count - 16, by: 8).map { Array(bytes[$0..<$0 + 16]) }
        }
        #expect(Set(pieces).count == pieces.count)
    }

    @Test func sizesFallIntoBuckets() throws {
        func size(_ count: Int) throws -> Int {
            try lockbox.archiveObject(Data(count: count), forKey: "key")
            return try readBytes(store.path("key", prefix: "com.example.visible-prefix")).count
        }
        let frame = ItemHeader.length + 2 * SealedBox.overhead + 256 + ItemMACs.length
        let buckets = [
            0: 256, 1: 256, 240: 256, 241: 512, 496: 512, 497: 1024, 1008: 1024, 1009: 2048, 2032: 2048,
            2033: 4096,
            4080: 4096, 4081: 4352, 5000: 5120, 100_000: 100_352, 1_000_000: 1_015_808, 16 << 20: 17_301_504,
        ]
        for (count, bucket) in buckets { #expect(try size(count) == frame + bucket, "\(count)") }
    }

    @Test func everyPaddingIsEnoughAndNotTooMuch() {
        var last = 0
        for length in 0...200_000 {
            let bucket = Padding.bucket(length)
            #expect(bucket >= length)
            #expect(length <= 4096 || Double(bucket) <= Double(length) * 1.12)
            #expect(bucket >= last)
            last = bucket
        }
    }

    /// The keys come from the device key alone: whoever has that and the keybag has everything. Without it, the keybag
    /// shows nothing.
    @Test func keysDoNotStandInTheKeybag() throws {
        try lockbox.archiveObject("value", forKey: "key")
        let deviceKey = Array(try readBytes(store.deviceKey)[8...])
        #expect(Data(try readBytes(store.keybag)).range(of: Data(deviceKey)) == nil)
        let keyring = try store.openedKeybag().keyring()
        for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
            let key = try keyring.key(.classKey(accessibility), epoch: 1).withBytes { Data($0) }
            for (path, entry) in try store.snapshot() {
                #expect(entry.bytes.flatMap { Data($0).range(of: key) } == nil, "\(path)")
            }
        }
    }
}
