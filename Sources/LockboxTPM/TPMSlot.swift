#if TPM
    import CTSS2
    import LockboxCore
    import LockboxSealed

    /// The parameters of a slot, some 250 bytes. Version 1:
    ///
    /// ```
    /// offset  bytes
    ///  0      1      version: 1
    ///  1      1      n, 0 if the slot has no PIN
    ///  2      n      the parameters of ``PasscodeUnlock``, which makes the TPM's authorization of the PIN
    ///         2 + n  name of the storage root key: TPM2B_NAME
    ///         2 + n  public area of the sealed secret: TPM2B_PUBLIC
    ///         2 + n  its encrypted part: TPM2B_PRIVATE
    /// ```
    ///
    /// The last three are as a TPM marshals them: a size in two bytes, big-endian, and as many bytes. Nothing follows.
    struct TPMSlot {
        static let record = "the TPM slot"
        private static let version: UInt8 = 1

        /// The sealed secret, as the TPM's library has it.
        typealias Sealed = (publicArea: TPM2B_PUBLIC, privateArea: TPM2B_PRIVATE)

        /// Empty without a PIN.
        let pin: [UInt8]
        /// The name of the storage root key: a hash of its public area.
        let primary: [UInt8]
        let sealed: Sealed

        init(pin: [UInt8], primary: [UInt8], sealed: Sealed) {
            self.pin = pin
            self.primary = primary
            self.sealed = sealed
        }

        /// Reads the parameters, and checks all that can be checked without the TPM.
        init(_ bytes: [UInt8]) throws(LockboxError) {
            guard bytes.count > 2, bytes.count > 2 + Int(bytes[1]) else {
                throw Self.corrupt("it is cut short")
            }
            guard bytes[0] == Self.version else {
                throw LockboxError.unsupportedVersion(record: Self.record, version: Int(bytes[0]))
            }
            pin = Array(bytes[2..<(2 + Int(bytes[1]))])
            var offset = 2 + pin.count
            var name = TPM2B_NAME()
            var sealed: Sealed = (TPM2B_PUBLIC(), TPM2B_PRIVATE())
            guard Tss2_MU_TPM2B_NAME_Unmarshal(bytes, bytes.count, &offset, &name) == 0, name.size > 0,
                Tss2_MU_TPM2B_PUBLIC_Unmarshal(bytes, bytes.count, &offset, &sealed.publicArea) == 0,
                Tss2_MU_TPM2B_PRIVATE_Unmarshal(bytes, bytes.count, &offset, &sealed.privateArea) == 0
            else { throw Self.corrupt("it does not have the three parts that it should have") }
            primary = name.bytes
            self.sealed = sealed
            // The library ignores some sizes, and what follows.
            guard try self.bytes() == bytes else { throw Self.corrupt("it has bytes that nothing uses") }
        }

        func bytes() throws(LockboxError) -> [UInt8] {
            let start = [Self.version, UInt8(pin.count)] + pin
            var bytes =
                start + [UInt8](repeating: 0, count: SlotEnrollment.maximumParametersLength - start.count)
            var offset = start.count
            var (name, sealed) = (TPM2B_NAME(primary), sealed)
            guard Tss2_MU_TPM2B_NAME_Marshal(&name, &bytes, bytes.count, &offset) == 0,
                Tss2_MU_TPM2B_PUBLIC_Marshal(&sealed.publicArea, &bytes, bytes.count, &offset) == 0,
                Tss2_MU_TPM2B_PRIVATE_Marshal(&sealed.privateArea, &bytes, bytes.count, &offset) == 0
            else { throw Self.corrupt("what the TPM has made does not fit into it") }
            return Array(bytes[..<offset])
        }

        private static func corrupt(_ reason: String) -> LockboxError {
            .corrupt(record: record, reason: reason)
        }
    }

    extension TPM2B_NAME {
        init(_ bytes: [UInt8]) {
            self.init()
            size = UInt16(min(bytes.count, MemoryLayout.size(ofValue: name)))
            withUnsafeMutableBytes(of: &name) { $0.copyBytes(from: bytes.prefix($0.count)) }
        }

        var bytes: [UInt8] {
            withUnsafeBytes(of: name) { Array($0.prefix(Int(size))) }
        }
    }
#endif
