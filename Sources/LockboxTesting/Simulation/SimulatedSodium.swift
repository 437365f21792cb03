@preconcurrency import Clibsodium
import LockboxPlatform

/// libsodium's random bytes, which come from the machine in its threads.
enum SimulatedSodium {
    private static let system = randombytes_sysrandom_implementation
    nonisolated(unsafe) private static let implementation: UnsafeMutablePointer<randombytes_implementation> =
        {
            let pointer = UnsafeMutablePointer<randombytes_implementation>.allocate(capacity: 1)
            pointer.initialize(to: system)
            pointer.pointee.random = {
                (world as? SimulatedProcess).map { UInt32(truncatingIfNeeded: $0.machine.random.next()) }
                    ?? system.random!()
            }
            pointer.pointee.buf = { buffer, count in
                guard let process = world as? SimulatedProcess else { return system.buf!(buffer, count) }
                for byte in UnsafeMutableRawBufferPointer(start: buffer, count: count).indices {
                    buffer?.storeBytes(
                        of: UInt8(truncatingIfNeeded: process.machine.random.next()),
                        toByteOffset: byte,
                        as: UInt8.self
                    )
                }
            }
            pointer.pointee.uniform = nil
            return pointer
        }()

    /// Takes effect in this process.
    static let install: Void = {
        randombytes_set_implementation(implementation)
        precondition(sodium_init() >= 0, "libsodium could not be initialized")
    }()
}
