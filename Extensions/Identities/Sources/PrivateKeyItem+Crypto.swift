#if Identities
    public import Crypto
    public import CryptoExtras
    public import LockboxCore
    public import LockboxPlatform
    import SwiftASN1

    extension PrivateKeyItem {
        /// Reads a private key and stores it as PKCS#8.
        ///
        /// - Parameter der: The key in DER, without encryption: PKCS#8, SEC1 (NIST curves) or PKCS#1 (RSA). P-256,
        ///   P-384, P-521, Ed25519, X25519, and RSA with 2,048 bits or more.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not such a key.
        public init(der: Data) throws(LockboxError) {
            self.init(pkcs8: try KeyMaterial(der: der).pkcs8)
        }

        /// Reads a private key and stores it as PKCS#8.
        ///
        /// - Parameter pem: Text with one private key, without encryption: `PRIVATE KEY`, `EC PRIVATE KEY` or
        ///   `RSA PRIVATE KEY`. Other parts, such as certificates, are skipped.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it has no private key, or several, or one of
        ///   an algorithm that is not supported: see `init(der:)`.
        public init(pem: String) throws(LockboxError) {
            let keys = try documents(pem).filter { $0.discriminator.hasSuffix("PRIVATE KEY") }
            guard let key = keys.first, keys.count == 1 else {
                throw .invalidKeyData("expected one private key, found \(keys.count)")
            }
            guard key.discriminator != "ENCRYPTED PRIVATE KEY" else {
                throw .invalidKeyData("it is encrypted; decrypt it first, for example with openssl pkey")
            }
            try self.init(der: Data(key.derBytes))
        }

        /// The key in PEM, as PKCS#8. **It is a secret.**
        public var pem: String { PEMDocument(type: "PRIVATE KEY", derBytes: Array(pkcs8)).pemString + "\n" }

        /// Returns the key's searchable attributes.
        ///
        /// - Parameters:
        ///   - label: A name for people.
        ///   - tag: The app's own name for the key.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not a key of a supported algorithm: see
        ///   `init(der:)`.
        public func attributes(label: String? = nil, tag: String? = nil) throws(LockboxError) -> Attributes {
            let key = try KeyMaterial(der: pkcs8)
            return Attributes(
                label: label,
                tag: tag,
                publicKeyHash: publicKeyHash(key.publicKey),
                algorithm: key.algorithm,
                bitCount: key.bitCount
            )
        }

        /// Creates a private key from one of swift-crypto.
        public init(_ key: P256.Signing.PrivateKey) { self.init(pkcs8: KeyMaterial.p256(key).pkcs8) }

        /// Creates a private key from one of swift-crypto.
        public init(_ key: P384.Signing.PrivateKey) { self.init(pkcs8: KeyMaterial.p384(key).pkcs8) }

        /// Creates a private key from one of swift-crypto.
        public init(_ key: P521.Signing.PrivateKey) { self.init(pkcs8: KeyMaterial.p521(key).pkcs8) }

        /// Creates a private key from one of swift-crypto, for Ed25519.
        public init(_ key: Curve25519.Signing.PrivateKey) { self.init(pkcs8: KeyMaterial.ed25519(key).pkcs8) }

        /// Creates a private key from one of swift-crypto, for X25519.
        public init(_ key: Curve25519.KeyAgreement.PrivateKey) {
            self.init(pkcs8: KeyMaterial.x25519(key).pkcs8)
        }

        /// Creates a private key from one of swift-crypto.
        public init(_ key: _RSA.Signing.PrivateKey) { self.init(pkcs8: KeyMaterial.rsa(key).pkcs8) }
    }

    extension LockboxError {
        fileprivate static func another(than name: String) -> LockboxError {
            .invalidKeyData("it is not a key for \(name)")
        }
    }

    extension P256.Signing.PrivateKey {
        /// Creates a key from an item's value.
        ///
        /// - Parameter key: The item's value.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not a key for P-256.
        public init(_ key: PrivateKeyItem) throws(LockboxError) {
            guard case .p256(let own) = try KeyMaterial(der: key.pkcs8) else { throw .another(than: "P-256") }
            self = own
        }
    }

    extension P384.Signing.PrivateKey {
        /// Creates a key from an item's value.
        ///
        /// - Parameter key: The item's value.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not a key for P-384.
        public init(_ key: PrivateKeyItem) throws(LockboxError) {
            guard case .p384(let own) = try KeyMaterial(der: key.pkcs8) else { throw .another(than: "P-384") }
            self = own
        }
    }

    extension P521.Signing.PrivateKey {
        /// Creates a key from an item's value.
        ///
        /// - Parameter key: The item's value.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not a key for P-521.
        public init(_ key: PrivateKeyItem) throws(LockboxError) {
            guard case .p521(let own) = try KeyMaterial(der: key.pkcs8) else { throw .another(than: "P-521") }
            self = own
        }
    }

    extension Curve25519.Signing.PrivateKey {
        /// Creates a key from an item's value.
        ///
        /// - Parameter key: The item's value.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not a key for Ed25519.
        public init(_ key: PrivateKeyItem) throws(LockboxError) {
            guard case .ed25519(let own) = try KeyMaterial(der: key.pkcs8) else {
                throw .another(than: "Ed25519")
            }
            self = own
        }
    }

    extension Curve25519.KeyAgreement.PrivateKey {
        /// Creates a key from an item's value.
        ///
        /// - Parameter key: The item's value.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not a key for X25519.
        public init(_ key: PrivateKeyItem) throws(LockboxError) {
            guard case .x25519(let own) = try KeyMaterial(der: key.pkcs8) else {
                throw .another(than: "X25519")
            }
            self = own
        }
    }

    extension _RSA.Signing.PrivateKey {
        /// Creates a key from an item's value.
        ///
        /// - Parameter key: The item's value.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it is not a key for RSA.
        public init(_ key: PrivateKeyItem) throws(LockboxError) {
            guard case .rsa(let own) = try KeyMaterial(der: key.pkcs8) else { throw .another(than: "RSA") }
            self = own
        }
    }
#endif
