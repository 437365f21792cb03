import Clibsodium
import Dispatch
import LockboxCore
import LockboxPlatform

/// The functions of libsodium, which is initialized first.
@_spi(Extensions)
public enum Sodium {
    /// Must be evaluated before any call of libsodium. Before `sodium_init`, `sodium_malloc` aborts the
    /// process. While `sodium_init` runs on any thread, libsodium switches implementations, and a computation
    /// in progress can yield a wrong tag.
    package static let ready: Void = precondition(sodium_init() >= 0, "libsodium could not be initialized")

    package static func fillRandom(_ buffer: UnsafeMutableRawBufferPointer) {
        _ = ready
        randombytes_buf(buffer.baseAddress!, buffer.count)
    }

    /// Returns random bytes.
    public static func randomBytes(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            fillRandom(UnsafeMutableRawBufferPointer(buffer))
            initialized = count
        }
    }

    // MARK: Secret bytes

    /// Overwrites memory with zeros. The compiler cannot remove this.
    public static func wipe(_ buffer: UnsafeMutableRawBufferPointer) {
        sodium_memzero(buffer.baseAddress!, buffer.count)
    }

    /// Overwrites all bytes with zeros.
    public static func wipe(_ bytes: inout [UInt8]) {
        bytes.withUnsafeMutableBytes { if !$0.isEmpty { wipe($0) } }
    }

    /// Overwrites the stack below the caller, where C libraries have left copies of secrets.
    public static func wipeStack() { sodium_stackzero(16384) }

    /// Compares in a time that depends only on the length.
    package static func isEqual(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
        a.count == b.count && (a.isEmpty || sodium_memcmp(a.baseAddress!, b.baseAddress!, a.count) == 0)
    }

    // MARK: Hashes

    /// Returns the SHA-256 hash.
    public static func sha256(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        _ = ready
        return [UInt8](unsafeUninitializedCapacity: crypto_hash_sha256_bytes()) { output, count in
            crypto_hash_sha256(
                output.baseAddress!,
                bytes.bindMemory(to: UInt8.self).baseAddress,
                UInt64(bytes.count)
            )
            count = output.count
        }
    }

    /// Returns the SHA-512 hash.
    public static func sha512(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        _ = ready
        return [UInt8](unsafeUninitializedCapacity: crypto_hash_sha512_bytes()) { output, count in
            crypto_hash_sha512(
                output.baseAddress!,
                bytes.bindMemory(to: UInt8.self).baseAddress,
                UInt64(bytes.count)
            )
            count = output.count
        }
    }

    /// Returns a BLAKE2b hash of 16 to 64 bytes.
    package static func hash(of bytes: [UInt8], length: Int = 32) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: length)
        bytes.withUnsafeBytes { bytes in output.withUnsafeMutableBytes { hash(bytes, into: $0) } }
        return output
    }

    /// Computes BLAKE2b without a key.
    package static func hash(_ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) {
        _ = ready
        let result = crypto_generichash(
            output.baseAddress!,
            output.count,
            input.baseAddress,
            UInt64(input.count),
            nil,
            0
        )
        precondition(result == 0, "BLAKE2b takes 16 to 64 bytes of output")
    }

    /// Derives a key of 32 bytes from another one, whose length may be 16 to 64 bytes.
    package static func derive(_ personal: Personal, from key: SecretKey, _ input: [UInt8] = []) throws
        -> SecretKey
    {
        try SecretKey { output in
            input.withUnsafeBytes { hash($0, key: key, personal: personal, into: output) }
        }
    }

    /// Returns 32 bytes of keyed BLAKE2b.
    static func hash(of bytes: [UInt8], key: SecretKey, personal: Personal) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        bytes.withUnsafeBytes { bytes in
            output.withUnsafeMutableBytes { hash(bytes, key: key, personal: personal, into: $0) }
        }
        return output
    }

    /// Computes keyed BLAKE2b. The personal string, zero-padded to 16 bytes, separates the uses of a key.
    package static func hash(
        _ input: UnsafeRawBufferPointer,
        key: SecretKey,
        personal: Personal,
        into output: UnsafeMutableRawBufferPointer
    ) {
        key.withBytes { key in
            withUnsafeBytes(of: personal.bytes) { personal in
                let result = crypto_generichash_blake2b_salt_personal(
                    output.baseAddress!,
                    output.count,
                    input.baseAddress,
                    UInt64(input.count),
                    key.baseAddress,
                    key.count,
                    nil,
                    personal.baseAddress
                )
                precondition(result == 0, "BLAKE2b takes 1 to 64 bytes of output and of key")
            }
        }
    }
}

/// SHA-256 of bytes that come one after the other.
package struct SHA256 {
    private var state = crypto_hash_sha256_state()

    package init() {
        _ = Sodium.ready
        crypto_hash_sha256_init(&state)
    }

    package mutating func add(_ bytes: [UInt8]) { bytes.withUnsafeBytes { add($0) } }

    package mutating func add(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.bindMemory(to: UInt8.self).baseAddress else { return }
        crypto_hash_sha256_update(&state, start, UInt64(bytes.count))
    }

    package func finished() -> [UInt8] {
        var state = state
        var output = [UInt8](repeating: 0, count: 32)
        crypto_hash_sha256_final(&state, &output)
        return output
    }
}

/// A personalization string of BLAKE2b: at most 16 bytes of ASCII.
package struct Personal {
    package let bytes: SIMD16<UInt8>

    package init(_ text: StaticString) {
        precondition(text.utf8CodeUnitCount <= 16)
        var bytes = SIMD16<UInt8>()
        for index in 0..<text.utf8CodeUnitCount { bytes[index] = text.utf8Start[index] }
        self.bytes = bytes
    }

    package static let scope = Personal("lockbox.scope.v1")
    package static let name = Personal("lockbox.name.v1")
    package static let value = Personal("lockbox.value.v1")
    package static let metadata = Personal("lockbox.meta.v1")
    package static let classMAC = Personal("lockbox.class.v1")
    package static let unlockMAC = Personal("lockbox.chose.v1")
    package static let unlocked = Personal("lockbox.whole.v1")
    package static let afterFirstUnlock = Personal("lockbox.first.v1")
    package static let key = Personal("lockbox.key.v1")
    package static let recovery = Personal("lockbox.recov.v1")
    package static let slot = Personal("lockbox.slot.v1")
    package static let level = Personal("lockbox.level.v1")
    package static let keyPair = Personal("lockbox.pair.v1")
    package static let authentication = Personal("lockbox.auth.v1")
    package static let grant = Personal("lockbox.grant.v1")
    package static let keybag = Personal("lockbox.bag.v1")
    package static let sharedUnlock = Personal("lockbox.unlock.1")
    package static let deviceCheck = Personal("lockbox.dev.v1")
}

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

/// Argon2id 1.3 (RFC 9106) with one lane, as implemented by libsodium.
package enum Argon2id {
    /// The number of passes, and the memory in bytes.
    package typealias Cost = (operations: UInt32, memory: UInt64)

    /// libsodium's predefined levels.
    package static let interactive = cost(
        crypto_pwhash_argon2id_OPSLIMIT_INTERACTIVE,
        crypto_pwhash_argon2id_MEMLIMIT_INTERACTIVE
    )
    package static let moderate = cost(
        crypto_pwhash_argon2id_OPSLIMIT_MODERATE,
        crypto_pwhash_argon2id_MEMLIMIT_MODERATE
    )
    package static let sensitive = cost(
        crypto_pwhash_argon2id_OPSLIMIT_SENSITIVE,
        crypto_pwhash_argon2id_MEMLIMIT_SENSITIVE
    )

    private static func cost(_ operations: some BinaryInteger, _ memory: some BinaryInteger) -> Cost {
        (UInt32(operations), UInt64(memory))
    }

    /// One run takes up to 1 GiB. However many threads ask, no more run at a time than there are processors.
    ///
    /// By process: a forked child has none of the threads that would end its parent's runs.
    private static let permits = Protected<[Int: DispatchSemaphore]>([:])

    private static func permit() -> DispatchSemaphore {
        permits.withLock { permits in
            let process = ForkGuard.generation
            let permit = permits[process] ?? DispatchSemaphore(value: max(1, world.processors))
            permits[process] = permit
            return permit
        }
    }

    /// Waits while other threads run it.
    ///
    /// - Throws: ``LockboxError/notEnoughMemory(bytes:)``.
    package static func derive(
        _ passcode: UnsafeRawBufferPointer,
        salt: SIMD16<UInt8>,
        operations: UInt32,
        memory: UInt64,
        into output: UnsafeMutableRawBufferPointer
    ) throws {
        _ = Sodium.ready
        let permit = permit()
        permit.wait()
        defer { permit.signal() }
        let result = withUnsafeBytes(of: salt) { salt in
            crypto_pwhash(
                output.start,
                UInt64(output.count),
                passcode.bindMemory(to: CChar.self).baseAddress!,
                UInt64(passcode.count),
                salt.bindMemory(to: UInt8.self).baseAddress!,
                UInt64(operations),
                Int(memory),
                crypto_pwhash_ALG_ARGON2ID13
            )
        }
        guard result == 0 else { throw LockboxError.notEnoughMemory(bytes: Int(memory)) }
    }
}
