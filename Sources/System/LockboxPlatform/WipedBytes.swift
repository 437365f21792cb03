/// Secret bytes in ordinary memory, which is wiped when their last reference is gone. Creating them cannot fail, unlike libsodium's
/// guarded memory, which is scarce.
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

    package convenience init(_ bytes: some Collection<UInt8>) {
        self.init(count: bytes.count) { $0.copyBytes(from: bytes) }
    }

    /// Takes the bytes out of an array, which is wiped.
    package convenience init(_ array: inout [UInt8]) {
        self.init(count: array.count) { $0.copyBytes(from: array) }
        array.withUnsafeMutableBytes { wipe($0) }
    }

    deinit {
        wipe(memory)
        memory.deallocate()
    }

    /// The bytes are there as long as the call takes, and not as long as a pointer to them.
    package func withBytes<Result, Failure>(_ body: (UnsafeRawBufferPointer) throws(Failure) -> Result)
        throws(Failure) -> Result
    {
        defer { withExtendedLifetime(self) {} }
        return try body(UnsafeRawBufferPointer(memory))
    }
}
