import Clibsodium

/// libsodium, initialised.
enum Sodium {
    /// Every way into the library passes here first. Before `sodium_init`, `sodium_malloc` aborts the process; and while it
    /// runs, on whatever thread, libsodium changes implementations under a computation, which gives a wrong tag.
    static let ready: Void = precondition(sodium_init() >= 0, "libsodium could not be initialised")

    static func fillRandom(_ buffer: UnsafeMutableRawBufferPointer) {
        _ = ready
        randombytes_buf(buffer.baseAddress!, buffer.count)
    }

    static func randomBytes(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            fillRandom(UnsafeMutableRawBufferPointer(buffer))
            initialized = count
        }
    }

    /// BLAKE2b without a key.
    static func hash(_ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) {
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
    static func hash(
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
struct Personal {
    let bytes: SIMD16<UInt8>

    init(_ text: StaticString) {
        precondition(text.utf8CodeUnitCount <= 16)
        var bytes = SIMD16<UInt8>()
        for index in 0..<text.utf8CodeUnitCount { bytes[index] = text.utf8Start[index] }
        self.bytes = bytes
    }

    static let scope = Personal("lockbox.scope.v1")
    static let name = Personal("lockbox.name.v1")
    static let value = Personal("lockbox.value.v1")
    static let metadata = Personal("lockbox.meta.v1")
    static let passcode = Personal("lockbox.pass.v1")
    static let wrap = Personal("lockbox.wrap.v1")
    static let keybag = Personal("lockbox.bag.v1")
    static let backup = Personal("lockbox.export.1")
    static let sharedUnlock = Personal("lockbox.unlock.1")
    static let deviceCheck = Personal("lockbox.dev.v1")
}
