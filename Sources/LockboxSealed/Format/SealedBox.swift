import LockboxCore
import LockboxSodium

/// The format in which Lockbox seals all data: `nonce 24 | commitment 32 | ciphertext | tag 16`.
///
/// A keyed BLAKE2b hash of the context and the nonce, 64 bytes long, yields the box's own key and a commitment
/// to it. The commitment is compared before anything is decrypted, because XChaCha20-Poly1305 alone does not
/// commit to its key.
enum SealedBox {
    static let prefixLength = AEAD.nonceLength + commitmentLength
    static let overhead = prefixLength + AEAD.tagLength
    static let maximumContextLength = 64

    private static let commitmentLength = 32

    /// Seals, in place, the plaintext between the box's prefix and its tag.
    static func seal(
        _ box: UnsafeMutableRawBufferPointer,
        authenticating data: UnsafeRawBufferPointer,
        context: UnsafeRawBufferPointer,
        key: SecretKey,
        personal: Personal
    ) {
        precondition(box.count >= overhead)
        let nonce = UnsafeMutableRawBufferPointer(rebasing: box[..<AEAD.nonceLength])
        let commitment = UnsafeMutableRawBufferPointer(rebasing: box[AEAD.nonceLength..<prefixLength])
        let ciphertext = UnsafeMutableRawBufferPointer(rebasing: box[prefixLength...])
        Sodium.fillRandom(nonce)
        withDerivedKey(from: key, personal: personal, context: context, nonce: .init(nonce)) {
            boxKey,
            derived in
            commitment.copyMemory(from: derived)
            AEAD.seal(
                UnsafeRawBufferPointer(rebasing: ciphertext[..<(ciphertext.count - AEAD.tagLength)]),
                authenticating: data,
                nonce: UnsafeRawBufferPointer(nonce),
                key: boxKey,
                into: ciphertext
            )
        }
    }

    /// Opens a box in place.
    ///
    /// - Returns: The plaintext, inside `box`, or nil if the box is not authentic. The ciphertext is then
    ///   overwritten.
    static func open(
        _ box: UnsafeMutableRawBufferPointer,
        authenticating data: UnsafeRawBufferPointer,
        context: UnsafeRawBufferPointer,
        key: SecretKey,
        personal: Personal
    ) -> UnsafeMutableRawBufferPointer? {
        guard box.count >= overhead else { return nil }
        let nonce = UnsafeRawBufferPointer(rebasing: box[..<AEAD.nonceLength])
        let commitment = UnsafeRawBufferPointer(rebasing: box[AEAD.nonceLength..<prefixLength])
        let ciphertext = UnsafeMutableRawBufferPointer(rebasing: box[prefixLength...])
        let plaintext = UnsafeMutableRawBufferPointer(
            rebasing: ciphertext[..<(ciphertext.count - AEAD.tagLength)]
        )
        let opened = withDerivedKey(from: key, personal: personal, context: context, nonce: nonce) {
            boxKey,
            derived in
            Sodium.isEqual(derived, commitment)
                && AEAD.open(
                    UnsafeRawBufferPointer(ciphertext),
                    authenticating: data,
                    nonce: nonce,
                    key: boxKey,
                    into: plaintext
                )
        }
        return opened ? plaintext : nil
    }

    private static func withDerivedKey<Result>(
        from key: SecretKey,
        personal: Personal,
        context: UnsafeRawBufferPointer,
        nonce: UnsafeRawBufferPointer,
        _ body: (_ boxKey: UnsafeRawBufferPointer, _ commitment: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        precondition(context.count <= maximumContextLength)
        return withUnsafeTemporaryAllocation(byteCount: 64 + maximumContextLength + 24, alignment: 8) {
            scratch in
            let derived = UnsafeMutableRawBufferPointer(rebasing: scratch[..<64])
            let input = UnsafeMutableRawBufferPointer(
                rebasing: scratch[64..<(64 + context.count + nonce.count)]
            )
            input.copyMemory(from: context)
            UnsafeMutableRawBufferPointer(rebasing: input[context.count...]).copyMemory(from: nonce)
            Sodium.hash(UnsafeRawBufferPointer(input), key: key, personal: personal, into: derived)
            defer { Sodium.wipe(derived) }
            return body(
                UnsafeRawBufferPointer(rebasing: derived[..<AEAD.keyLength]),
                UnsafeRawBufferPointer(rebasing: derived[AEAD.keyLength...])
            )
        }
    }
}
