#if Identities
    public import LockboxCore
    import LockboxPlatform
    import X509

    extension IdentityItem {
        /// Reads an identity from PEM, and checks it.
        ///
        /// - Parameter pem: Text with one private key and its chain of certificates: first that of the key, then each the
        ///   issuer of the one before it. See `PrivateKeyItem.init(pem:)` for the key.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if a part cannot be read, or any error of
        ///   `validate()`.
        public init(pem: String) throws(LockboxError) {
            try self.init(chainPEM: pem, privateKeyPEM: pem)
        }

        /// Reads an identity from two texts in PEM, such as `fullchain.pem` and `privkey.pem`, and checks it.
        ///
        /// - Parameters:
        ///   - chainPEM: Text with the certificates: first that of the key, then each the issuer of the one before it.
        ///   - privateKeyPEM: Text with the private key: see `PrivateKeyItem.init(pem:)`.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if a part cannot be read, or any error of
        ///   `validate()`.
        public init(chainPEM: String, privateKeyPEM: String) throws(LockboxError) {
            try self.init(
                chain: CertificateItem.chain(pem: chainPEM),
                privateKey: PrivateKeyItem(pem: privateKeyPEM)
            )
            try validate()
        }

        /// Checks that the key belongs to the first certificate, and that each further certificate is that of the
        /// issuer of the one before it.
        ///
        /// Signatures, dates and trust are not checked: that is what the peer does.
        ///
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if a part cannot be read, or does not belong to the
        ///   others.
        public func validate() throws(LockboxError) {
            var parsed: [X509.Certificate] = []
            for certificate in certificates { parsed.append(try X509.Certificate(certificate)) }
            guard try KeyMaterial(der: pkcs8).certificateKey == parsed[0].publicKey else {
                throw .invalidKeyData("it does not belong to the certificate of \(parsed[0].subject)")
            }
            for (index, (certificate, next)) in zip(parsed, parsed.dropFirst()).enumerated()
            where certificate.issuer != next.subject {
                throw .invalidAttribute(
                    name: "chain",
                    reason:
                        "certificate \(index + 2) has the subject \(next.subject), but certificate \(index + 1) "
                        + "was issued by \(certificate.issuer)"
                )
            }
        }

        /// The chain in PEM.
        public var chainPEM: String { certificates.map(\.pem).joined() }

        /// The chain and the key in PEM. **It is a secret.**
        public var pem: String { chainPEM + privateKey.pem }

        /// Checks the identity, and returns its searchable attributes.
        ///
        /// - Parameters:
        ///   - label: A name for people.
        ///   - tag: The app's own name for the key.
        /// - Throws: Any error of `validate()`.
        public func attributes(label: String? = nil, tag: String? = nil) throws(LockboxError) -> Attributes {
            try validate()
            return Attributes(
                certificate: try certificate.attributes(label: label),
                privateKey: try privateKey.attributes(tag: tag)
            )
        }
    }
#endif
