import Clibsodium
import Dispatch
import LockboxCore
import LockboxPlatform

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
            let processors = sysconf(CInt(_SC_NPROCESSORS_ONLN))
            let permit = permits[process] ?? DispatchSemaphore(value: max(1, processors))
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
                output.baseAddress!.assumingMemoryBound(to: UInt8.self),
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
