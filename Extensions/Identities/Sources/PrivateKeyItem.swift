public import Lockbox
@_spi(Extensions) public import LockboxCore
public import LockboxPlatform

/// A private key's bytes, like an item of the Keychain's class of keys.
///
/// ```swift
/// let lockbox = try Lockbox(keyPrefix: "com.example.app")
/// let attributes = PrivateKeyItem.Attributes(tag: "com.example.signing", algorithm: .ellipticCurve, bitCount: 256)
/// try lockbox.archiveObject(PrivateKeyItem(pkcs8: bytes), forKey: attributes.key("signing"))
///
/// let list = try lockbox.list(matching: attributes.searchable)
/// ```
///
/// Lockbox does not look into the bytes. With the package trait `Identities`, the product `LockboxIdentities` does: it
/// reads PEM, makes keys of swift-crypto, and fills ``Attributes``.
///
/// However a key is printed, its bytes are not shown. They stay in memory until the value is released, and are not
/// wiped then.
public struct PrivateKeyItem: Sendable, Hashable, Codable {
    /// The key in DER, as PKCS#8 has it (RFC 5958), without encryption.
    public let pkcs8: Data

    /// Creates a private key. The bytes are not checked.
    ///
    /// - Parameter pkcs8: The key in DER, as PKCS#8 has it, without encryption; at most about 11 MiB: it is stored as
    ///   Base64 in JSON, and ``ArchivedValue/maximumSize`` applies to that.
    public init(pkcs8: Data) { self.pkcs8 = pkcs8 }
}

extension PrivateKeyItem {
    /// The algorithm of a key. The raw values are those of Apple's `kSecAttrKeyType`.
    public struct Algorithm: RawRepresentable, Sendable, Hashable {
        /// Apple's number for the algorithm, in decimal.
        public let rawValue: String

        /// Creates an algorithm from its number, known or not.
        ///
        /// - Parameter rawValue: Apple's number, in decimal.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// RSA: `42`, `kSecAttrKeyTypeRSA`.
        public static let rsa = Algorithm(rawValue: "42")

        /// ECDSA and ECDH on a NIST curve (P-256, P-384 or P-521): `73`, `kSecAttrKeyTypeECSECPrimeRandom`.
        public static let ellipticCurve = Algorithm(rawValue: "73")

        /// Ed25519, signatures with Curve25519: `105`, `kSecAttrKeyTypeEd25519` in `SecItemConstants.c` of Apple's
        /// Security 61901.
        public static let ed25519 = Algorithm(rawValue: "105")

        /// X25519, key agreement with Curve25519: `106`, `kSecAttrKeyTypeX25519` in `SecItemConstants.c` of Apple's
        /// Security 61901.
        public static let x25519 = Algorithm(rawValue: "106")
    }

    /// The searchable attributes of a private key, under the names of Apple's Keychain.
    ///
    /// A property that is `nil` adds no attribute, so the same value can describe a key or search for one.
    ///
    /// The texts are not secret: see ``ItemAttributes/searchable``, also for the limits of their length.
    public struct Attributes: Sendable, Hashable {
        /// A name for people. `labl`, `kSecAttrLabel`. Also the item's ``ItemAttributes/label``.
        public let label: String?

        /// The app's own name for the key. `atag`, `kSecAttrApplicationTag`.
        public let tag: String?

        /// SHA-1 of the public key's bits. `klbl`, `kSecAttrApplicationLabel`, in hexadecimal. The certificates of the
        /// key have it as ``CertificateItem/Attributes/publicKeyHash``.
        public let publicKeyHash: Data?

        /// The algorithm of the key. `type`, `kSecAttrKeyType`.
        public let algorithm: Algorithm?

        /// The length of the key in bits: of the modulus for RSA, of the curve's field otherwise. `bsiz`,
        /// `kSecAttrKeySizeInBits`.
        public let bitCount: Int?

        /// Creates the attributes of a private key, or what to look for.
        ///
        /// - Parameters:
        ///   - label: A name for people.
        ///   - tag: The app's own name for the key.
        ///   - publicKeyHash: SHA-1 of the public key's bits.
        ///   - algorithm: The algorithm of the key.
        ///   - bitCount: The length of the key in bits.
        public init(
            label: String? = nil,
            tag: String? = nil,
            publicKeyHash: Data? = nil,
            algorithm: Algorithm? = nil,
            bitCount: Int? = nil
        ) {
            self.label = label
            self.tag = tag
            self.publicKeyHash = publicKeyHash
            self.algorithm = algorithm
            self.bitCount = bitCount
        }

        /// Creates the attributes from those of an item. Returns `nil` if the item is not a ``PrivateKeyItem``.
        ///
        /// - Parameter attributes: The item's attributes.
        public init?(_ attributes: ItemAttributes) {
            guard attributes.searchable["class"] == "keys" else { return nil }
            self.init(texts: attributes.searchable)
        }

        init(texts: [String: String]) {
            self.init(
                label: texts["labl"],
                tag: texts["atag"],
                publicKeyHash: texts["klbl"].flatMap(Data.init(hexadecimal:)),
                algorithm: texts["type"].map(Algorithm.init(rawValue:)),
                bitCount: texts["bsiz"].flatMap { Int($0) }
            )
        }

        /// The searchable attributes: `class` and `kcls` (1, private) of every private key, and the properties that are
        /// not `nil`.
        public var searchable: [String: String] { texts.merging(["class": "keys"]) { $1 } }

        var texts: [String: String] {
            [
                "kcls": "1",
                "labl": label,
                "atag": tag,
                "klbl": publicKeyHash?.hexadecimal,
                "type": algorithm?.rawValue,
                "bsiz": bitCount.map { "\($0)" },
            ].compactMapValues { $0 }
        }

        /// Returns a key for a private key with these attributes. A write with it replaces all searchable attributes.
        ///
        /// - Parameters:
        ///   - name: The item's key: not empty, at most 4,096 bytes of UTF-8.
        ///   - accessibility: When the value can be read. If `nil`, a write keeps the class of an existing item.
        public func key(_ name: String, accessibility: Accessibility? = nil) -> LockboxKey<PrivateKeyItem?> {
            LockboxKey(
                name,
                options: WriteOptions(
                    accessibility: accessibility,
                    label: label.map { .set($0) } ?? .unchanged,
                    attributes: .set(searchable)
                )
            )
        }
    }
}

extension PrivateKeyItem: CustomStringConvertible, CustomReflectable {
    /// The type's name.
    public var description: String { "PrivateKeyItem" }

    /// Keeps `dump(_:)` from showing the contents.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
