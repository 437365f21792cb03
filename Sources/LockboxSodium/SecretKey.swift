import CLinux
import Clibsodium
import LockboxCore
import LockboxPlatform

/// Secret bytes, usually 32, in libsodium's guarded memory. They are locked into RAM if the system allows it,
/// left out of core dumps, read-only after initialization, and wiped on deallocation.
package final class SecretKey: @unchecked Sendable {  // the memory is written in init only
    package static let length = 32

    private let memory: UnsafeMutableRawPointer
    private let count: Int
    /// See ``ForkGuard/generation``.
    private let generation: Int
    /// Whether a forked child has zeros in its place.
    private let isWipedOnFork: Bool
    /// Whether the system has locked the key into RAM. It refuses above the limit of `ulimit -l`, which
    /// `sodium_malloc` does not report.
    package let isLockedIntoMemory: Bool

    /// Creates a key that `fill` writes in place, so that no copy is left elsewhere.
    ///
    /// - Throws: Any error of `fill`; ``LockboxError/storageFailure(operation:path:errno:)`` if there is not
    ///   enough memory.
    package init(count: Int = SecretKey.length, _ fill: (UnsafeMutableRawBufferPointer) throws -> Void) throws
    {
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
        isLockedIntoMemory = sodium_mlock(memory, count) == 0
        sodium_mprotect_readonly(memory)
        self.memory = memory
        self.count = count
    }

    package static func random() throws -> SecretKey { try SecretKey(Sodium.fillRandom) }

    /// In a forked child the key was wiped together with libsodium's guards, which `sodium_free` would check. Where it was
    /// not, `sodium_free` wipes the child's copy.
    deinit { if !isWipedOnFork || generation == ForkGuard.generation { sodium_free(memory) } }

    package func isEqual(to other: SecretKey) -> Bool {
        withBytes { own in other.withBytes { Sodium.isEqual(own, $0) } }
    }

    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withExtendedLifetime(self) {
            try body(UnsafeRawBufferPointer(start: memory, count: count))
        }
    }
}
