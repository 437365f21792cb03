import Clibsodium
import LockboxCore

/// A key that signs (Ed25519, RFC 8032, as libsodium's detached signatures). Only its seed is kept: libsodium's secret key has a public
/// half that it does not check, and two signatures with different halves give the secret away.
package struct SigningKey: Sendable {
    package static let publicKeyLength = 32
    package static let signatureLength = 64

    package let seed: SecretKey
    package let publicKey: [UInt8]

    package static func random() throws -> SigningKey { try SigningKey(seed: .random()) }

    package init(seed: SecretKey) throws {
        self.seed = seed
        publicKey = try Self.pair(seed).publicKey
    }

    /// - Throws: ``LockboxError`` if the signature is not valid, as after a fault of the memory.
    package func sign(_ message: [UInt8]) throws -> [UInt8] {
        let pair = try Self.pair(seed)
        var signature = [UInt8](repeating: 0, count: Self.signatureLength)
        pair.secretKey.withBytes {
            _ = crypto_sign_detached(&signature, nil, message, UInt64(message.count), $0.start)
        }
        guard pair.publicKey == publicKey, Self.isValid(signature, of: message, by: publicKey) else {
            throw LockboxError.corrupt(record: "the signing key", reason: "its signature is not valid")
        }
        return signature
    }

    package static func isValid(_ signature: [UInt8], of message: [UInt8], by publicKey: [UInt8]) -> Bool {
        _ = Sodium.ready
        guard signature.count == signatureLength, publicKey.count == publicKeyLength else { return false }
        return crypto_sign_verify_detached(signature, message, UInt64(message.count), publicKey) == 0
    }

    private static func pair(_ seed: SecretKey) throws -> (publicKey: [UInt8], secretKey: SecretKey) {
        _ = Sodium.ready
        var publicKey = [UInt8](repeating: 0, count: publicKeyLength)
        let secretKey = try SecretKey(count: 64) { secretKey in
            seed.withBytes { _ = crypto_sign_seed_keypair(&publicKey, secretKey.start, $0.start) }
        }
        return (publicKey, secretKey)
    }
}
