import Clibsodium
import LockboxCore
import LockboxPlatform

/// libsodium, initialised.
package enum Sodium {
    /// Every way into the library passes here first. Before `sodium_init`, `sodium_malloc` aborts the process; and while it
    /// runs, on whatever thread, libsodium changes implementations under a computation, which gives a wrong tag.
    package static let ready: Void = precondition(sodium_init() >= 0, "libsodium could not be initialised")

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

    // MARK: Bytes that are secret

    /// Overwrites memory with zeros, which no compiler leaves out.
    package static func wipe(_ buffer: UnsafeMutableRawBufferPointer) {
        sodium_memzero(buffer.baseAddress!, buffer.count)
    }

    package static func wipe(_ bytes: inout [UInt8]) {
        bytes.withUnsafeMutableBytes { if !$0.isEmpty { wipe($0) } }
    }

    /// In a time that depends on nothing but the length.
    package static func isEqual(_ a: UnsafeRawBufferPointer, _ b: UnsafeRawBufferPointer) -> Bool {
        a.count == b.count && (a.isEmpty || sodium_memcmp(a.baseAddress!, b.baseAddress!, a.count) == 0)
    }

    package static func isZero(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.isEmpty || sodium_is_zero(bytes.baseAddress!, bytes.count) == 1
    }

    // MARK: BLAKE2b

    /// BLAKE2b-256 of a text.
    package static func hash(of bytes: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        bytes.withUnsafeBytes { bytes in output.withUnsafeMutableBytes { hash(bytes, into: $0) } }
        return output
    }

    /// BLAKE2b without a key.
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

    /// Keyed BLAKE2b. The personal string separates the uses of one key; its sixteen bytes are zero-padded.
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
                precondition(result == 0, "BLAKE2b takes 1 to 64 bytes of output and 32 of key")
            }
        }
    }
}

/// A personalisation string of BLAKE2b: up to sixteen bytes of ASCII.
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
    package static let passcode = Personal("lockbox.pass.v1")
    package static let wrap = Personal("lockbox.wrap.v1")
    package static let keybag = Personal("lockbox.bag.v1")
    package static let backup = Personal("lockbox.export.1")
    package static let sharedUnlock = Personal("lockbox.unlock.1")
    package static let deviceCheck = Personal("lockbox.dev.v1")
}
