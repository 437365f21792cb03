/// Secret bytes, usually 32, in guarded memory: locked into RAM if the system allows it, left out of core dumps, read-only,
/// and wiped on deallocation.
package final class SecretKey: @unchecked Sendable {  // its bytes are those of `memory`, and never written
    package static let length = 32

    private let bytes: UnsafeRawBufferPointer
    private let memory: GuardedMemory

    private init(_ memory: GuardedMemory, _ range: Range<Int>) {
        self.memory = memory
        bytes = UnsafeRawBufferPointer(rebasing: memory.bytes[range])
    }

    /// Creates a key that `fill` writes in place, so that no copy is left elsewhere.
    ///
    /// - Throws: Any error of `fill`; ``LockboxError/storageFailure(operation:path:errno:)`` if there is not
    ///   enough memory.
    package convenience init(
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

    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withExtendedLifetime(self) { try body(bytes) }
    }
}
