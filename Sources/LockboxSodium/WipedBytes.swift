import LockboxPlatform

/// Secret bytes in ordinary memory, which is wiped on deallocation. Creating them cannot fail. Creating
/// a ``SecretKey`` can, as guarded memory is scarce.
package final class WipedBytes: @unchecked Sendable {  // the memory is written in init only
    private let memory: UnsafeMutableRawBufferPointer

    /// Creates bytes that `fill` writes in place. They are zeros before.
    package init<Failure>(count: Int, _ fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Void)
        throws(Failure)
    {
        memory = .allocate(byteCount: count, alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        // After an error, too, `deinit` wipes them.
        try fill(memory)
    }

    deinit {
        Sodium.wipe(memory)
        memory.deallocate()
    }

    package func withBytes<Result, Failure>(_ body: (UnsafeRawBufferPointer) throws(Failure) -> Result)
        throws(Failure) -> Result
    {
        defer { withExtendedLifetime(self) {} }
        return try body(UnsafeRawBufferPointer(memory))
    }
}
