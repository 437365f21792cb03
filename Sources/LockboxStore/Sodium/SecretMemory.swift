import CLinux
import Clibsodium
import LockboxCore
import LockboxPlatform

/// Secret bytes, usually 32, in guarded memory: locked into RAM if the system allows it, left out of core dumps, read-only,
/// and wiped on deallocation.
@_spi(Extensions)
public final class SecretKey: @unchecked Sendable {  // its bytes are those of `memory`, and never written
    /// The usual number of bytes.
    public static let length = 32

    private let bytes: UnsafeRawBufferPointer
    private let memory: GuardedMemory

    private init(_ memory: GuardedMemory, _ range: Range<Int>) {
        self.memory = memory
        bytes = memory.bytes.part(range)
    }

    /// Creates a key that `fill` writes in place, so that no copy is left elsewhere.
    ///
    /// - Throws: Any error of `fill`; ``LockboxError/storageFailure(operation:path:errno:explanation:)`` if there is not
    ///   enough memory.
    public convenience init(
        count: Int = SecretKey.length,
        _ fill: (UnsafeMutableRawBufferPointer) throws -> Void
    ) throws {
        self.init(try GuardedMemory(count: count, fill), 0..<count)
    }

    /// Creates keys of 32 bytes that `fill` writes in place, one after the other. They share their memory, so none is wiped
    /// before the last of them is released.
    package static func keys(_ count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws -> Void) throws
        -> [SecretKey]
    {
        if count == 0 { return [] }
        let memory = try GuardedMemory(count: count * length, fill)
        return (0..<count).map { SecretKey(memory, ($0 * length)..<(($0 + 1) * length)) }
    }

    package static func random() throws -> SecretKey { try SecretKey(Sodium.fillRandom) }

    /// Whether the system has locked the key into RAM.
    package var isLockedIntoMemory: Bool { memory.isLocked }

    package func isEqual(to other: SecretKey) -> Bool {
        withBytes { own in other.withBytes { Sodium.isEqual(own, $0) } }
    }

    /// Calls a closure with the bytes.
    public func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withExtendedLifetime(self) { try body(bytes) }
    }
}

/// An X25519 key pair, to which any program can seal bytes that only its owner opens (libsodium's sealed boxes).
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
            seed.withBytes { _ = crypto_box_seed_keypair(&publicKey, privateKey.start, $0.start) }
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
            let result = crypto_box_seal(&output, bytes.start, UInt64(bytes.count), publicKey)
            return result == 0 ? output : nil
        }
    }

    /// Opens what was sealed to this pair's public key (`crypto_box_seal_open`). Returns nil if it was not, or was
    /// changed.
    package func open(_ box: UnsafeRawBufferPointer) throws -> SecretKey? {
        guard box.count > Self.sealOverhead else { return nil }
        var result: CInt = -1
        let key = try SecretKey(count: box.count - Self.sealOverhead) { output in
            let length = UInt64(box.count)
            result = privateKey.withBytes {
                crypto_box_seal_open(output.start, box.start, length, publicKey, $0.start)
            }
        }
        return result == 0 ? key : nil
    }
}

/// Secret bytes in libsodium's guarded memory. They are locked into RAM if the system allows it, left out of core dumps,
/// read-only after initialization, and wiped on deallocation. Each takes four pages, of which one is locked, and some
/// fourteen system calls.
final class GuardedMemory: @unchecked Sendable {  // the memory is written in init only
    let bytes: UnsafeRawBufferPointer
    /// Whether the system has locked the bytes into RAM. It refuses above the limit of `ulimit -l`, which
    /// `sodium_malloc` does not report.
    let isLocked: Bool
    /// See ``ForkGuard/generation``.
    private let generation: Int
    /// Whether a forked child has zeros in its place.
    private let isWipedOnFork: Bool

    /// Creates bytes that `fill` writes in place, so that no copy is left elsewhere.
    ///
    /// - Throws: Any error of `fill`; ``LockboxError/storageFailure(operation:path:errno:explanation:)`` if there is not
    ///   enough memory.
    init(count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws -> Void) throws {
        _ = Sodium.ready
        guard let memory = sodium_malloc(count) else {
            throw LockboxError.storageFailure(
                operation: "sodium_malloc",
                path: "guarded memory",
                errno: errno
            )
        }
        do { try fill(UnsafeMutableRawBufferPointer(start: memory, count: count)) } catch {
            sodium_free(memory)
            throw error
        }
        isWipedOnFork = wipe_on_fork(memory, count) != 0
        generation = ForkGuard.generation
        isLocked = sodium_mlock(memory, count) == 0
        sodium_mprotect_readonly(memory)
        bytes = UnsafeRawBufferPointer(start: memory, count: count)
    }

    /// In a forked child the bytes were wiped together with libsodium's guards, which `sodium_free` would check. Where they
    /// were not, `sodium_free` wipes the child's copy.
    deinit {
        guard !isWipedOnFork || generation == ForkGuard.generation else { return }
        sodium_free(UnsafeMutableRawPointer(mutating: bytes.baseAddress))
    }
}

/// Notices that this process is a forked child. Where it can, the kernel has wiped the secret keys in it (`MADV_WIPEONFORK`).
@_spi(Extensions)
public enum ForkGuard {
    /// The aligned word that holds ``generation``. It is written once in a process, under the lock, and is nil where the kernel
    /// wipes nothing.
    // Unsafe only because pointers are not Sendable: this one never changes.
    nonisolated(unsafe) private static let page = page_wiped_on_fork()
    private static let last = Protected(0)

    /// A number that is another one in a forked child than in its parent, and never 0. Costs no system call where the kernel
    /// wipes pages.
    public static var generation: Int { generation(on: page) }

    static func generation(on page: UnsafeMutablePointer<Int>?) -> Int {
        guard let page else { return Int(getpid()) }
        if page.pointee != 0 { return page.pointee }
        return last.withLock { last in
            if page.pointee == 0 {
                last += 1
                page.pointee = last
            }
            return page.pointee
        }
    }
}
