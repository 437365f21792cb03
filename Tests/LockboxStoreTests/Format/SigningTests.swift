import Foundation
import Testing

@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Signatures, and the owner's keys that they certify.
@Suite struct SigningTests {
    private let key: SigningKey
    private let message = Array("lockbox.owner.b1".utf8) + [UInt8](repeating: 7, count: 64)

    init() throws { key = try .random() }

    /// RFC 8032, 7.1, test 3.
    @Test func aKnownSignature() throws {
        func bytes(_ text: String) throws -> [UInt8] { try #require(Data(hexadecimal: text)).map { $0 } }
        let seed = try bytes("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
        let known = try SigningKey(seed: SecretKey { $0.copyBytes(from: seed) })
        #expect(
            try known.publicKey == bytes("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
        )
        #expect(
            try known.sign([0xAF, 0x82])
                == bytes(
                    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                        + "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
                )
        )
    }

    @Test func everyChangedBitIsNoticed() throws {
        let signature = try key.sign(message)
        #expect(SigningKey.isValid(signature, of: message, by: key.publicKey))
        func flipped(_ bytes: [UInt8], _ bit: Int) -> [UInt8] {
            var bytes = bytes
            bytes[bit / 8] ^= 1 << (bit % 8)
            return bytes
        }
        for bit in 0..<512 {
            #expect(!SigningKey.isValid(flipped(signature, bit), of: message, by: key.publicKey), "\(bit)")
            if bit < 256 {
                #expect(
                    !SigningKey.isValid(signature, of: message, by: flipped(key.publicKey, bit)),
                    "\(bit)"
                )
            }
            #expect(!SigningKey.isValid(signature, of: flipped(message, bit), by: key.publicKey), "\(bit)")
        }
        for length in [0, 63, 65] {
            let other = Array((signature + [0]).prefix(length))
            #expect(!SigningKey.isValid(other, of: message, by: key.publicKey), "\(length)")
        }
    }

    /// The order of the group, added to the second half, gives another signature that careless code takes.
    @Test func noOtherFormOfASignatureIsValid() throws {
        let order: [UInt8] =
            [0xED, 0xD3, 0xF5, 0x5C, 0x1A, 0x63, 0x12, 0x58, 0xD6, 0x9C, 0xF7, 0xA2, 0xDE, 0xF9, 0xDE, 0x14]
            + [UInt8](repeating: 0, count: 15) + [0x10]
        var (signature, carry) = (try key.sign(message), 0)
        for index in 0..<32 {
            let sum = Int(signature[32 + index]) + Int(order[index]) + carry
            (signature[32 + index], carry) = (UInt8(truncatingIfNeeded: sum), sum >> 8)
        }
        #expect(!SigningKey.isValid(signature, of: message, by: key.publicKey))
        // Points of low order, which some signature fits whatever the message is.
        let zero = [UInt8](repeating: 0, count: 32)
        for point in [zero, [1] + zero.dropLast(), [0xEC] + [UInt8](repeating: 0xFF, count: 30) + [0x7F]] {
            for nonce in [zero, [1] + zero.dropLast(), point] {
                #expect(!SigningKey.isValid(nonce + zero, of: message, by: point))
            }
        }
    }

    @Test func onlyAnUnbrokenChainIsFollowed() throws {
        let (store, keys) = (StoreID.random(), try (0..<5).map { _ in try SigningKey.random() })
        func owner(_ store: StoreID, _ subjects: [Int] = [1, 2, 3]) throws -> KeybagOwner {
            try KeybagOwner(
                key: keys[3].publicKey,
                root: OwnerCertificate(keys[3].publicKey, by: keys[4], store),
                former: zip(0..<3, subjects).map {
                    try OwnerCertificate(keys[$1].publicKey, by: keys[$0], store)
                }
            )
        }
        let whole = try owner(store)
        #expect((0..<4).allSatisfy { whole.follows(keys[$0].publicKey, store) } && whole.isOfRoot(store))
        #expect(!whole.follows(keys[4].publicKey, store), "the root key is no owner's")
        #expect(!whole.follows(keys[0].publicKey, .random()) && !whole.isOfRoot(.random()))
        for subjects in [[2, 2, 3], [1, 3, 3], [1, 2, 2], [1, 2, 0]] {
            #expect(try !owner(store, subjects).follows(keys[0].publicKey, store), "\(subjects)")
        }
        let cut = KeybagOwner(key: whole.key, root: whole.root, former: Array(whole.former.dropLast()))
        #expect(!cut.follows(keys[0].publicKey, store))
    }
}
