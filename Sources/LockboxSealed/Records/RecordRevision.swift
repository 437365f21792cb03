import LockboxSodium

/// Identifies one version of a record.
public struct RecordRevision: Sendable, Hashable {
    /// The revision of a record that does not exist.
    public static let absent = RecordRevision(0, 0, 0, 0)

    private let parts: SIMD4<UInt64>

    /// The numbers that it was made from.
    package var numbers: SIMD4<UInt64> { parts }

    /// Creates a revision from numbers that are never used again. They must not all be zero, which is
    /// ``absent``.
    public init(_ first: UInt64, _ second: UInt64 = 0, _ third: UInt64 = 0, _ fourth: UInt64 = 0) {
        parts = SIMD4(first, second, third, fourth)
    }

    /// The number of bytes that a revision is computed from.
    static let prefixLength = 4096

    /// Computes the BLAKE2b-256 hash of the first bytes, combined with the length. Keybags and items have a
    /// random nonce near the beginning, so no two have the same hash.
    package init(of record: UnsafeRawBufferPointer, length: Int) {
        var parts = SIMD4<UInt64>()
        let prefix = UnsafeRawBufferPointer(rebasing: record.prefix(Self.prefixLength))
        withUnsafeMutableBytes(of: &parts) { Sodium.hash(prefix, into: $0) }
        parts[3] ^= UInt64(length)
        self.parts = parts
    }
}
