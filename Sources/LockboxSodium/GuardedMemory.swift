import CLinux
import Clibsodium
import LockboxCore
import LockboxPlatform

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
    /// - Throws: Any error of `fill`; ``LockboxError/storageFailure(operation:path:errno:)`` if there is not
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
