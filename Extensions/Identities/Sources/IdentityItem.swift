public import Lockbox
public import LockboxCore
public import LockboxPlatform

/// A private key with its certificate chain, in one item: the credentials of a TLS server or client.
///
/// ```swift
/// let lockbox = try Lockbox(keyPrefix: "com.example.server")
/// let identity = try IdentityItem(chain: [leaf, intermediate], privateKey: PrivateKeyItem(pkcs8: bytes))
/// let attributes = IdentityItem.Attributes(certificate: .init(label: "web", subject: "CN=example.com"))
/// try lockbox.archiveObject(identity, forKey: attributes.key("tls"))
/// ```
///
/// Key and chain are replaced together, so a reader never gets a key with another key's certificate.
///
/// Lockbox does not look into the bytes. With the package trait `Identities`, the product `LockboxIdentities` does: it
/// reads PEM, refuses a key that does not belong to the certificate, and fills ``Attributes``.
///
/// However an identity is printed, the key's bytes are not shown.
public struct IdentityItem: Sendable, Hashable {
    /// The certificates in DER: first that of the key, then each the issuer of the one before it.
    public let chain: [Data]

    /// The key in DER, as PKCS#8 has it (RFC 5958), without encryption.
    public let pkcs8: Data

    /// Creates an identity. The bytes are not checked.
    ///
    /// - Parameters:
    ///   - chain: The certificates: first that of the key, then each the issuer of the one before it. Together with the
    ///     key at most about 11 MiB: they are stored as Base64 in JSON, and ``ArchivedValue/maximumSize`` applies to that.
    ///   - privateKey: The key.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if there is no certificate.
    public init(chain: [CertificateItem], privateKey: PrivateKeyItem) throws(LockboxError) {
        guard !chain.isEmpty else {
            throw .invalidAttribute(name: "identity", reason: "it has no certificate")
        }
        self.chain = chain.map(\.der)
        pkcs8 = privateKey.pkcs8
    }

    /// The certificate of the key: the first one of the chain.
    public var certificate: CertificateItem { CertificateItem(der: chain[0]) }

    /// All certificates, in the order of the chain.
    public var certificates: [CertificateItem] { chain.map(CertificateItem.init(der:)) }

    /// The key.
    public var privateKey: PrivateKeyItem { PrivateKeyItem(pkcs8: pkcs8) }
}

extension IdentityItem: Codable {
    private enum CodingKeys: CodingKey {
        case chain
        case pkcs8
    }

    /// Decodes an identity.
    ///
    /// - Parameter decoder: The decoder.
    /// - Throws: The decoder's errors, and ``LockboxError/invalidAttribute(name:reason:)`` if there is no certificate.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        try self.init(
            chain: container.decode([Data].self, forKey: .chain).map(CertificateItem.init(der:)),
            privateKey: PrivateKeyItem(pkcs8: container.decode(Data.self, forKey: .pkcs8))
        )
    }
}

extension IdentityItem {
    /// The searchable attributes of an identity: those of its certificate and of its key.
    ///
    /// A property that is `nil` adds no attribute, so the same value can describe an identity or search for one:
    /// `lockbox.list(matching: IdentityItem.Attributes(certificate: .init(subject: "CN=example.com")).searchable)`.
    public struct Attributes: Sendable, Hashable {
        /// The attributes of the first certificate of the chain. Its label is the identity's.
        public let certificate: CertificateItem.Attributes

        /// The attributes of the key. Its label is that of the certificate.
        public let privateKey: PrivateKeyItem.Attributes

        /// Creates the attributes of an identity, or what to look for.
        ///
        /// - Parameters:
        ///   - certificate: The attributes of the first certificate of the chain.
        ///   - privateKey: The attributes of the key. Its label counts only if the certificate has none.
        public init(
            certificate: CertificateItem.Attributes = CertificateItem.Attributes(),
            privateKey: PrivateKeyItem.Attributes = PrivateKeyItem.Attributes()
        ) {
            let texts = privateKey.texts.merging(certificate.texts) { $1 }
            self.certificate = CertificateItem.Attributes(texts: texts)
            self.privateKey = PrivateKeyItem.Attributes(texts: texts)
        }

        /// Creates the attributes from those of an item. Returns `nil` if the item is not an ``IdentityItem``.
        ///
        /// - Parameter attributes: The item's attributes.
        public init?(_ attributes: ItemAttributes) {
            let texts = attributes.searchable
            guard texts["class"] == "idnt" else { return nil }
            certificate = CertificateItem.Attributes(texts: texts)
            privateKey = PrivateKeyItem.Attributes(texts: texts)
        }

        /// The searchable attributes: those of the certificate and of the key, and `class`.
        public var searchable: [String: String] {
            privateKey.texts.merging(certificate.texts) { $1 }.merging(["class": "idnt"]) { $1 }
        }

        /// Returns a key for an identity with these attributes. A write with it replaces all searchable attributes.
        ///
        /// - Parameters:
        ///   - name: The item's key: not empty, at most 4,096 bytes of UTF-8. Use the same one when you renew the identity.
        ///   - accessibility: When the value can be read. If `nil`, a write keeps the class of an existing item.
        public func key(_ name: String, accessibility: Accessibility? = nil) -> LockboxKey<IdentityItem?> {
            LockboxKey(
                name,
                options: WriteOptions(
                    accessibility: accessibility,
                    label: certificate.label.map { .set($0) } ?? .unchanged,
                    attributes: .set(searchable)
                )
            )
        }
    }
}

extension IdentityItem: CustomStringConvertible, CustomReflectable {
    /// The number of certificates. Does not show the key.
    public var description: String { "IdentityItem(\(chain.count) certificates)" }

    /// Keeps `dump(_:)` from showing the contents.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
