#if TPM
    import CTSS2
    import LockboxCore
    import LockboxSodium

    /// The parameters of a slot, some 260 bytes. Version 1:
    ///
    /// ```
    /// offset  bytes
    ///  0      1      version: 1
    ///  1      1      1 if the slot has a PIN, otherwise 0
    ///  2      1      derivation of the TPM's authorization from the PIN: 1 = Argon2id 1.3, 0 without a PIN
    ///  3      1      0
    ///  4      4      passes of Argon2id, little-endian: 2 to 10, 0 without a PIN
    ///  8      8      memory of Argon2id in bytes, little-endian: whole KiB, 64 MiB to 1 GiB, 0 without a PIN
    /// 16      2 + n  name of the storage root key: TPM2B_NAME
    ///         2 + n  public area of the sealed secret: TPM2B_PUBLIC
    ///         2 + n  its encrypted part: TPM2B_PRIVATE
    /// ```
    ///
    /// The last three are as a TPM marshals them: a size in two bytes, big-endian, and as many bytes. Nothing follows.
    struct TPMSlot {
        static let record = "the TPM slot"
        private static let version: UInt8 = 1
        private static let argon2id13: UInt8 = 1
        private static let operationsLimits = Argon2id.interactive.operations...10
        private static let memoryLimits = Argon2id.interactive.memory...(1 << 30)

        /// The sealed secret, as the TPM's library has it.
        typealias Sealed = (publicArea: TPM2B_PUBLIC, privateArea: TPM2B_PRIVATE)

        /// nil without a PIN.
        let cost: Argon2id.Cost?
        /// The name of the storage root key: a hash of its public area.
        let primary: [UInt8]
        let sealed: Sealed

        init(cost: Argon2id.Cost?, primary: [UInt8], sealed: Sealed) {
            self.cost = cost
            self.primary = primary
            self.sealed = sealed
        }

        /// Reads the parameters, and checks all that can be checked without the TPM.
        init(_ bytes: [UInt8]) throws {
            guard bytes.count > 16 else { throw Self.corrupt("it is cut short") }
            guard bytes[0] == Self.version else {
                throw LockboxError.unsupportedVersion(record: Self.record, version: Int(bytes[0]))
            }
            cost = try Self.readCost(bytes)
            var offset = 16
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

        private static func readCost(_ bytes: [UInt8]) throws -> Argon2id.Cost? {
            let (operations, memory) = bytes.withUnsafeBytes {
                (
                    UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: 4, as: UInt32.self)),
                    UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                )
            }
            switch (bytes[1], bytes[2], bytes[3]) {
            case (0, 0, 0):
                guard operations == 0, memory == 0 else { throw corrupt("it has no PIN, and a cost") }
                return nil
            case (1, argon2id13, 0):
                guard operationsLimits.contains(operations), memoryLimits.contains(memory), memory % 1024 == 0
                else {
                    throw corrupt(
                        "its PIN needs \(operations) passes over \(memory) bytes, beyond the limits"
                    )
                }
                return (operations, memory)
            default: throw corrupt("it has unknown flags")
            }
        }

        func bytes() throws -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: 2048)
            bytes[0] = Self.version
            if let cost {
                bytes[1] = 1
                bytes[2] = Self.argon2id13
                bytes.withUnsafeMutableBytes {
                    $0.storeBytes(of: cost.operations.littleEndian, toByteOffset: 4, as: UInt32.self)
                    $0.storeBytes(of: cost.memory.littleEndian, toByteOffset: 8, as: UInt64.self)
                }
            }
            var offset = 16
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
