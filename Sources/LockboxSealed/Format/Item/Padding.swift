import LockboxCore

/// Padding that hides the length of what is sealed.
enum Padding {
    /// Returns the padded length of a value: 256, 512, 1,024, 2,048 or 4,096 bytes; above that, the next length
    /// whose binary form ends in enough zeros (Padmé, from Nikitin et al., "Reducing Metadata Leakage from
    /// Encrypted Files", PETS 2019). This adds at most 12 % and leaks O(log log n) bits of the length.
    static func bucket(_ length: Int) -> Int {
        if length <= 256 { return 256 }
        if length <= 4096 { return 1 << (Int.bitWidth - (length - 1).leadingZeroBitCount) }
        let exponent = Int.bitWidth - 1 - length.leadingZeroBitCount
        let mantissaBits = Int.bitWidth - exponent.leadingZeroBitCount
        let mask = (1 << (exponent - mantissaBits)) - 1
        return (length + mask) & ~mask
    }

    /// Returns `length` rounded up to a multiple of 256.
    static func block(_ length: Int) -> Int { (length + 255) & ~255 }
}
