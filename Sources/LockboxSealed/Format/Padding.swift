import LockboxCore

/// Lengths that hide lengths.
enum Padding {
    /// The length that a value of `length` bytes is padded to: 256, 512, 1,024, 2,048 or 4,096; above that the
    /// next length whose binary form ends in enough zeros, which costs at most 12 % and leaks O(log log n) bits.
    /// (Padmé, from Nikitin et al., "Reducing Metadata Leakage from Encrypted Files", PETS 2019.)
    static func bucket(_ length: Int) -> Int {
        if length <= 256 { return 256 }
        if length <= 4096 { return 1 << (Int.bitWidth - (length - 1).leadingZeroBitCount) }
        let exponent = Int.bitWidth - 1 - length.leadingZeroBitCount
        let mantissaBits = Int.bitWidth - exponent.leadingZeroBitCount
        let mask = (1 << (exponent - mantissaBits)) - 1
        return (length + mask) & ~mask
    }

    /// `length` rounded up to a multiple of 256.
    static func block(_ length: Int) -> Int { (length + 255) & ~255 }
}
