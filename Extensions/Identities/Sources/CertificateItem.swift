public import Lockbox
@_spi(Extensions) public import LockboxCore
public import LockboxPlatform

/// A certificate's bytes, like an item of the Keychain's class of certificates.
///
/// ```swift
/// let lockbox = try Lockbox(keyPrefix: "com.example.app")
/// let attributes = CertificateItem.Attributes(issuer: "CN=Example CA", serialNumber: Data([1, 0x2f]))
/// try lockbox.archiveObject(CertificateItem(der: bytes), forKey: attributes.key("ca"))
///
/// let list = try lockbox.list(matching: attributes.searchable)
/// ```
///
/// Lockbox does not look into the bytes. With the package trait `Identities`, the product `LockboxIdentities` does: it
/// reads PEM, and fills ``Attributes``.
public struct CertificateItem: Sendable, Hashable, Codable {
    /// The certificate in DER (X.690, RFC 5280).
    public let der: Data

    /// Creates a certificate. The bytes are not checked.
    ///
    /// - Parameter der: The certificate in DER, at most about 11 MiB: it is stored as Base64 in JSON, and
    ///   ``ArchivedValue/maximumSize`` applies to that.
    public init(der: Data) { self.der = der }
}

extension CertificateItem {
    /// The searchable attributes of a certificate, under the names of Apple's Keychain.
    ///
    /// A property that is `nil` adds no attribute, so the same value can describe a certificate or search for one:
    /// `lockbox.list(matching: CertificateItem.Attributes(subject: "CN=example.com").searchable)`.
    ///
    /// The texts are not secret: see ``ItemAttributes/searchable``, also for the limits of their length.
    public struct Attributes: Sendable, Hashable {
        /// A name for people. `labl`, `kSecAttrLabel`. Also the item's ``ItemAttributes/label``.
        public let label: String?

        /// The subject's distinguished name, as an RFC 4514 string: `CN=example.com,O=Example`. `subj`, `kSecAttrSubject`.
        public let subject: String?

        /// The issuer's distinguished name, as an RFC 4514 string. `issr`, `kSecAttrIssuer`.
        public let issuer: String?

        /// The serial number, without leading zero bytes. `slnr`, `kSecAttrSerialNumber`, in hexadecimal.
        public let serialNumber: Data?

        /// The subject key identifier, an extension of the certificate. `skid`, `kSecAttrSubjectKeyID`, in hexadecimal.
        public let subjectKeyID: Data?

        /// SHA-1 of the public key's bits, the first method of RFC 5280, section 4.2.1.2. `pkhh`,
        /// `kSecAttrPublicKeyHash`, in hexadecimal. The key has it as ``PrivateKeyItem/Attributes/publicKeyHash``.
        public let publicKeyHash: Data?

        /// The version of X.509, usually 3. `ctyp`, `kSecAttrCertificateType`.
        public let version: Int?

        /// The end of the validity period, in whole seconds, clamped to the years 1600 to 9999. Stored as `notAfter`,
        /// such as `2027-01-31T12:00:00Z`, so that a program can warn from a list, without opening a value. The item itself
        /// does not expire.
        public let notAfter: Date?

        /// Creates the attributes of a certificate, or what to look for.
        ///
        /// - Parameters:
        ///   - label: A name for people.
        ///   - subject: The subject's distinguished name, as an RFC 4514 string.
        ///   - issuer: The issuer's distinguished name, as an RFC 4514 string.
        ///   - serialNumber: The serial number. Leading zero bytes are dropped.
        ///   - subjectKeyID: The subject key identifier.
        ///   - publicKeyHash: SHA-1 of the public key's bits.
        ///   - version: The version of X.509.
        ///   - notAfter: The end of the validity period. A date that is not finite counts as `nil`.
        public init(
            label: String? = nil,
            subject: String? = nil,
            issuer: String? = nil,
            serialNumber: Data? = nil,
            subjectKeyID: Data? = nil,
            publicKeyHash: Data? = nil,
            version: Int? = nil,
            notAfter: Date? = nil
        ) {
            self.label = label
            self.subject = subject
            self.issuer = issuer
            self.serialNumber = serialNumber.map { number in
                let digits = Data(number.drop { $0 == 0 })
                return digits.isEmpty && !number.isEmpty ? Data([0]) : digits
            }
            self.subjectKeyID = subjectKeyID
            self.publicKeyHash = publicKeyHash
            self.version = version
            self.notAfter = notAfter.flatMap { date in
                let seconds = date.timeIntervalSince1970
                guard seconds.isFinite else { return nil }
                return Date(timeIntervalSince1970: min(max(seconds.rounded(.down), Self.first), Self.last))
            }
        }

        /// Creates the attributes from those of an item. Returns `nil` if the item is not a ``CertificateItem``.
        ///
        /// - Parameter attributes: The item's attributes.
        public init?(_ attributes: ItemAttributes) {
            guard attributes.searchable["class"] == "cert" else { return nil }
            self.init(texts: attributes.searchable)
        }

        init(texts: [String: String]) {
            self.init(
                label: texts["labl"],
                subject: texts["subj"],
                issuer: texts["issr"],
                serialNumber: texts["slnr"].flatMap(Data.init(hexadecimal:)),
                subjectKeyID: texts["skid"].flatMap(Data.init(hexadecimal:)),
                publicKeyHash: texts["pkhh"].flatMap(Data.init(hexadecimal:)),
                version: texts["ctyp"].flatMap { Int($0) },
                notAfter: texts["notAfter"].flatMap { try? Date($0, strategy: .iso8601) }
            )
        }

        /// The searchable attributes: `class` and `cenc` (3, DER) of every certificate, and the properties that are not
        /// `nil`.
        public var searchable: [String: String] { texts.merging(["class": "cert"]) { $1 } }

        var texts: [String: String] {
            [
                "cenc": "3",
                "labl": label,
                "subj": subject,
                "issr": issuer,
                "slnr": serialNumber?.hexadecimal,
                "skid": subjectKeyID?.hexadecimal,
                "pkhh": publicKeyHash?.hexadecimal,
                "ctyp": version.map { "\($0)" },
                "notAfter": notAfter?.formatted(.iso8601),
            ].compactMapValues { $0 }
        }

        /// Returns a key for a certificate with these attributes. A write with it replaces all searchable attributes.
        ///
        /// - Parameters:
        ///   - name: The item's key: not empty, at most 4,096 bytes of UTF-8.
        ///   - accessibility: When the value can be read. If `nil`, a write keeps the class of an existing item.
        public func key(_ name: String, accessibility: Accessibility? = nil) -> LockboxKey<CertificateItem?> {
            LockboxKey(
                name,
                options: WriteOptions(
                    accessibility: accessibility,
                    label: label.map { .set($0) } ?? .unchanged,
                    attributes: .set(searchable)
                )
            )
        }

        /// The first second of the year 1600, and the last one of 9999, with which RFC 5280 says that there is no end.
        private static let first = -11_676_096_000.0
        private static let last = 253_402_300_799.0
    }
}

extension CertificateItem: CustomStringConvertible, CustomReflectable {
    /// The number of bytes.
    public var description: String { "CertificateItem(\(der.count) bytes)" }

    /// Keeps `dump(_:)` from showing the contents.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
