import Clibsodium
import LockboxCore
import LockboxPlatform

/// The functions of libsodium, which is initialized first.
package enum Sodium {
    /// Must be evaluated before any call of libsodium. Before `sodium_init`, `sodium_malloc` aborts the
    /// process. While `sodium_init` runs on any thread, libsodium switches implementations, and a computation
    /// in progress can yield a wrong tag.
    package static let ready: Void = precondition(sodium_init() >= 0, "libsodium could not be initialized")

    package static func fillRandom(_ buffer: UnsafeMutableRawBufferPointer) {
        _ = ready
        randombytes_buf(buffer.baseAddress!, buffer.count)
    }

    package static func randomBytes(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            fillRandom(UnsafeMutableRawBufferPointer(buffer))
            initialized = count
        }
    }

    // MARK: Secret bytes

    /// Overwrites memory with zeros. The compiler cannot remove this.
    package static func wipe(_ buffer: UnsafeMutableRawBufferPointer) {
        sodium_memzero(buffer.baseAddress!, buffer.count)
    }

    package static func wipe(_ bytes: inout [UInt8]) {
        bytes.withUnsafeMutableBytes { if !$0.isEmpty { wipe($0) } }
    }

    /// Overwrites the stack below the caller, where C libraries have left copies of secrets.
    package static func wipeStack() { sodium_stackzero(16384) }

    /// Compares in a time that depends only on the length.
    package static func isEqual(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
        a.count == b.count && (a.isEmpty || sodium_memcmp(a.baseAddress!, b.baseAddress!, a.count) == 0)
    }

    // MARK: Hashes

    /// Returns the SHA-256 hash.
    package static func sha256(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
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

    /// Returns the BLAKE2b-256 hash.
    package static func hash(of bytes: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
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
