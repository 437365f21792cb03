#if FIDO2
    import LockboxCore

    /// The parameters of a slot. Version 1:
    ///
    /// ```
    /// offset  bytes
    ///  0      1      version: 1
    ///  1      1      1 if the key verifies its user (PIN, fingerprint), otherwise 0. A key has a secret for each
    ///  2      2      n, the length of the credential's number, little-endian: 1 to 1,024
    ///  4      n      the credential's number
    /// ```
    ///
    /// Nothing follows. The salt of `hmac-secret` is the slot's salt.
    struct FIDO2Slot {
        static let record = "the FIDO2 slot"
        private static let version: UInt8 = 1
        private static let maximumLength = 1024

        let isVerified: Bool
        let credential: [UInt8]

        init(isVerified: Bool, credential: [UInt8]) {
            self.isVerified = isVerified
            self.credential = credential
        }

        init(_ bytes: [UInt8]) throws {
            guard bytes.count > 4 else { throw Self.corrupt("it is cut short") }
            guard bytes[0] == Self.version else {
                throw LockboxError.unsupportedVersion(record: Self.record, version: Int(bytes[0]))
            }
            guard bytes[1] <= 1 else { throw Self.corrupt("it has unknown flags") }
            let length = Int(bytes[2]) | Int(bytes[3]) << 8
            guard length <= Self.maximumLength, bytes.count == 4 + length else {
                throw Self.corrupt("the length of its credential is wrong")
            }
            isVerified = bytes[1] == 1
            credential = Array(bytes[4...])
        }

        func bytes() throws -> [UInt8] {
            guard (1...Self.maximumLength).contains(credential.count) else {
                throw Self.corrupt("the key's credential has \(credential.count) bytes")
            }
            let length = credential.count
            return [Self.version, isVerified ? 1 : 0, UInt8(length & 0xff), UInt8(length >> 8)] + credential
        }

        private static func corrupt(_ reason: String) -> LockboxError {
            .corrupt(record: record, reason: reason)
        }
    }
#endif
