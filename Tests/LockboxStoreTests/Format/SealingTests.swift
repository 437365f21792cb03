import Foundation
import Testing

@testable import Lockbox
@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The pieces that records are made of.
@Suite(.tags(.argon2id)) struct SealingTests {
    @Test func recordNamesAreBase32OfTheId() throws {
        let id = RecordID { $0.copyBytes(from: (0..<32).map { UInt8($0 * 7) }) }
        // By Python's base64.b32encode.
        #expect(id.name == "aadq4fi4emvdcob7izgviw3cnfyho7ufrsjzviniv63l3rgl2lmq")
        #expect(RecordID(name: id.name) == id)
        for _ in 0..<1000 {
            let id = RecordID { $0.copyBytes(from: Sodium.randomBytes(32)) }
            #expect(RecordID(name: id.name) == id)
            #expect(id.name.allSatisfy { $0.isLowercase || "234567".contains($0) })
        }
    }

    @Test func otherNamesAreNotIds() {
        let name = RecordID { $0.copyBytes(from: Sodium.randomBytes(32)) }.name
        let wrong = [
            "", "lock", name + "a", String(name.dropLast()), name.uppercased(), "1" + name.dropFirst(),
            // Its four spare bits are not zero: a second name for the same bytes.
            name.dropLast() + "b", "/" + name.dropFirst(), String(repeating: "é", count: 26),
        ]
        for name in wrong { #expect(RecordID(name: name) == nil, "\(name)") }
    }

    @Test func boxOpensOnlyAsItWasSealed() throws {
        let key = try SecretKey.random()
        let plaintext = Array("plaintext".utf8)
        let sealed = box(plaintext, data: [1], context: [2], key, .value)
        #expect(open(sealed, data: [1], context: [2], key, .value) == plaintext, "the control")
        #expect(open(sealed, data: [0], context: [2], key, .value) == nil)
        #expect(open(sealed, data: [], context: [2], key, .value) == nil)
        #expect(open(sealed, data: [1], context: [3], key, .value) == nil)
        #expect(open(sealed, data: [1], context: [2, 0], key, .value) == nil)
        #expect(open(sealed, data: [1], context: [2], key, .metadata) == nil)
        #expect(open(sealed, data: [1], context: [2], try .random(), .value) == nil)
        #expect(
            open(Array(sealed.prefix(SealedBox.overhead - 1)), data: [1], context: [2], key, .value) == nil
        )
    }

    /// XChaCha20-Poly1305 does not commit to its key: the box must, before it decrypts.
    @Test func boxIsCommittedToItsKey() throws {
        let key = try SecretKey.random()
        var sealed = box([1, 2, 3], data: [], context: [], key, .value)
        sealed[AEAD.nonceLength] ^= 1
        #expect(open(sealed, data: [], context: [], key, .value) == nil)
    }

    private func box(
        _ plaintext: [UInt8],
        data: [UInt8],
        context: [UInt8],
        _ key: SecretKey,
        _ personal: Personal
    ) -> [UInt8] {
        var box =
            [UInt8](repeating: 0, count: SealedBox.prefixLength) + plaintext
            + [UInt8](repeating: 0, count: 16)
        let boxKey = BoxKey(key: key, personal: personal, context: context)
        box.withUnsafeMutableBytes { SealedBox.seal($0, authenticating: data, with: boxKey) }
        return box
    }

    private func open(
        _ box: [UInt8],
        data: [UInt8],
        context: [UInt8],
        _ key: SecretKey,
        _ personal: Personal
    ) -> [UInt8]? {
        var box = box
        let boxKey = BoxKey(key: key, personal: personal, context: context)
        return box.withUnsafeMutableBytes {
            SealedBox.open($0, authenticating: data, with: boxKey).map { Array($0) }
        }
    }

    @Test func boxShorterThanItsOverheadDoesNotOpen() throws {
        let key = try SecretKey.random()
        for count in 0..<SealedBox.overhead {
            #expect(open([UInt8](repeating: 0, count: count), data: [], context: [], key, .value) == nil)
        }
    }

    /// Keys of two stores are never the same; the store id binds a record to its store even if they were.
    @Test func itemOfAnotherStoreWithTheSameKeysDoesNotOpen() throws {
        let roles = Accessibility.allCases.map(KeyRole.classKey) + [.metadata, .names]
        let keys = try roles.map { (id: Keyring.KeyID($0, 1), key: try SecretKey.random()) }
        func keyring() throws -> Keyring {
            try Keyring(keybag: Keybag.create(deviceKey: .random()), keys: keys)
        }
        let (own, stranger) = (try keyring(), try keyring())
        let item = try StoredItem(
            key: ItemKey(prefix: "p", key: "k"),
            value: ArchivedValue(data: Data([1]), format: .data),
            modified: Date()
        )
        let id = own.itemID(item.key)
        func opens(_ sealed: [UInt8], _ keyring: Keyring) throws -> Bool {
            var record = sealed
            return try record.withUnsafeMutableBytes {
                try ItemEnvelope.openItem($0, id: id, keyring: keyring, now: .distantPast) != nil
            }
        }
        let sealed = try ItemEnvelope.seal(item, id: id, keyring: stranger)
        #expect(try opens(sealed, stranger), "the control")
        #expect(throws: RecordError.notAuthentic) { try opens(sealed, own) }
    }

    @Test func secretKeysAreReadOnlyAndGuarded() async {
        await #expect(processExitsWith: .failure) {
            try SecretKey.random().withBytes { bytes in
                UnsafeMutableRawPointer(mutating: bytes.baseAddress!).storeBytes(of: 1, as: UInt8.self)
            }
        }
        await #expect(processExitsWith: .failure) {
            try SecretKey.random().withBytes { bytes in
                print(bytes.baseAddress!.load(fromByteOffset: SecretKey.length, as: UInt8.self))
            }
        }
    }

    @Test func keysOfCanonicallyEqualNamesAreEqual() throws {
        let deviceKey = try SecretKey.random()
        let keyring = try Keybag.create(deviceKey: deviceKey).keyring()
        let spellings = [
            ("\u{E9}", "e\u{301}"), ("\u{1EA1}\u{307}", "a\u{307}\u{323}"), ("\u{212B}", "\u{C5}"),
            ("\u{AC00}", "\u{1100}\u{1161}"),
        ]
        for (one, other) in spellings {
            try #require(one == other)
            #expect(
                try keyring.itemID(ItemKey(prefix: one, key: one))
                    == keyring.itemID(ItemKey(prefix: other, key: other))
            )
            #expect(keyring.namespace(ofPrefix: one) == keyring.namespace(ofPrefix: other))
        }
        #expect(
            try keyring.itemID(ItemKey(prefix: "a.b", key: "c"))
                != keyring.itemID(ItemKey(prefix: "a", key: "b.c"))
        )
        #expect(
            try keyring.itemID(ItemKey(prefix: "ab", key: "c"))
                != keyring.itemID(ItemKey(prefix: "a", key: "bc"))
        )
    }

    /// Every scalar value that has a canonical decomposition, against Swift's own idea of equality.
    @Test func foundationNormalizesAsSwiftCompares() {
        for value in UInt32(0x80)...0x2FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let text = String(Character(scalar))
            let decomposed = text.decomposedStringWithCanonicalMapping
            if decomposed.unicodeScalars.elementsEqual(text.unicodeScalars) { continue }
            #expect(decomposed == text)
            #expect(decomposed.canonical.utf8.elementsEqual(text.canonical.utf8))
        }
    }
}
