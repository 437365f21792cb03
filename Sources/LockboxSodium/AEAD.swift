import Clibsodium
import LockboxCore
import LockboxPlatform

/// XChaCha20-Poly1305-IETF (draft-irtf-cfrg-xchacha-03), as libsodium has it.
package enum AEAD {
    package static let keyLength = 32
    package static let nonceLength = 24
    package static let tagLength = 16

    /// Writes the ciphertext and the tag to `output`, which may begin at the same address as `plaintext`.
    package static func seal(
        _ plaintext: UnsafeRawBufferPointer,
        authenticating data: UnsafeRawBufferPointer,
        nonce: UnsafeRawBufferPointer,
        key: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) {
        _ = Sodium.ready
        precondition(key.count == keyLength && nonce.count == nonceLength)
        precondition(output.count == plaintext.count + tagLength)
        crypto_aead_xchacha20poly1305_ietf_encrypt(
            output.baseAddress!,
            nil,
            plaintext.baseAddress,
            UInt64(plaintext.count),
            data.baseAddress,
            UInt64(data.count),
            nil,
            nonce.baseAddress!,
            key.baseAddress!
        )
    }

    /// Writes the plaintext to `output`, which may begin at the same address as `ciphertext`.
    ///
    /// - Returns: false, with no plaintext written, if a length is invalid or the tag does not match.
    package static func open(
        _ ciphertext: UnsafeRawBufferPointer,
        authenticating data: UnsafeRawBufferPointer,
        nonce: UnsafeRawBufferPointer,
        key: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) -> Bool {
        _ = Sodium.ready
        guard key.count == keyLength, nonce.count == nonceLength, ciphertext.count >= tagLength,
            output.count >= ciphertext.count - tagLength
        else { return false }
        return crypto_aead_xchacha20poly1305_ietf_decrypt(
            output.baseAddress!,
            nil,
            nil,
            ciphertext.baseAddress!,
            UInt64(ciphertext.count),
            data.baseAddress,
            UInt64(data.count),
            nonce.baseAddress!,
            key.baseAddress!
        ) == 0
    }
}
