import LockboxSodium

/// Tells one version of a record from every other.
public struct RecordRevision: Sendable, Hashable {
    /// Of a record that is not there.
    public static let absent = RecordRevision(0, 0, 0, 0)

    private let parts: SIMD4<UInt64>

    /// Of numbers that never come together again: not all zero, which is ``absent``.
    public init(_ first: UInt64, _ second: UInt64 = 0, _ third: UInt64 = 0, _ fourth: UInt64 = 0) {
        parts = SIMD4(first, second, third, fourth)
    }

    /// How many of a record's bytes a revision is made of.
    static let prefixLength = 4096

    /// BLAKE2b-256 of the first bytes and the length. Keybags and items have a random nonce near the beginning, so that no two
    /// are equal there.
    init(of record: UnsafeRawBufferPointer, length: Int) {
        var parts = SIMD4<UInt64>()
        let prefix = UnsafeRawBufferPointer(rebasing: record.prefix(Self.prefixLength))
        withUnsafeMutableBytes(of: &parts) { Sodium.hash(prefix, into: $0) }
        parts[3] ^= UInt64(length)
        self.parts = parts
    }
}
