import Clibsodium
import LockboxCore
import LockboxPlatform

/// An X25519 key pair, to which anybody can seal bytes that only its owner opens (libsodium's sealed boxes).
package struct KeyPair: Sendable {
    package static let publicKeyLength = 32
    /// An ephemeral public key and a tag.
    package static let sealOverhead = 48

    package let publicKey: [UInt8]
    private let privateKey: SecretKey

    /// Derives the pair from a seed of 32 bytes (`crypto_box_seed_keypair`).
    package init(seed: SecretKey) throws {
        _ = Sodium.ready
        var publicKey = [UInt8](repeating: 0, count: Self.publicKeyLength)
        privateKey = try SecretKey { privateKey in
            seed.withBytes { seed in
                _ = crypto_box_seed_keypair(
                    &publicKey,
                    privateKey.baseAddress!.assumingMemoryBound(to: UInt8.self),
                    seed.baseAddress!.assumingMemoryBound(to: UInt8.self)
                )
            }
        }
        self.publicKey = publicKey
    }

    /// Seals bytes to a public key (`crypto_box_seal`).
    ///
    /// - Returns: nil if the public key is not one: it is a point of low order.
    package static func seal(_ bytes: SecretKey, to publicKey: [UInt8]) -> [UInt8]? {
        precondition(publicKey.count == publicKeyLength)
        _ = Sodium.ready
        return bytes.withBytes { bytes in
            var output = [UInt8](repeating: 0, count: bytes.count + sealOverhead)
            let result = crypto_box_seal(
                &output,
                bytes.baseAddress!.assumingMemoryBound(to: UInt8.self),
                UInt64(bytes.count),
                publicKey
            )
            return result == 0 ? output : nil
        }
    }

    /// Opens what was sealed to this pair's public key (`crypto_box_seal_open`). Returns nil if it was not, or was
    /// changed.
    package func open(_ box: UnsafeRawBufferPointer) throws -> SecretKey? {
        guard box.count > Self.sealOverhead else { return nil }
        var isOpen = false
        let key = try SecretKey(count: box.count - Self.sealOverhead) { output in
            privateKey.withBytes { privateKey in
                isOpen =
                    crypto_box_seal_open(
                        output.baseAddress!.assumingMemoryBound(to: UInt8.self),
                        box.baseAddress!.assumingMemoryBound(to: UInt8.self),
                        UInt64(box.count),
                        publicKey,
                        privateKey.baseAddress!.assumingMemoryBound(to: UInt8.self)
                    ) == 0
            }
        }
        return isOpen ? key : nil
    }
}
