#if Identities
    public import LockboxCore
    import LockboxPlatform
    import SwiftASN1
    public import X509

    extension CertificateItem {
        /// Reads a certificate.
        ///
        /// - Parameter pem: Text with one certificate. Other parts, such as keys, are skipped.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it has no certificate, or several, or one that
        ///   cannot be read.
        public init(pem: String) throws(LockboxError) {
            let certificates = try Self.chain(pem: pem)
            guard certificates.count == 1 else {
                throw .invalidCertificate("expected one certificate, found \(certificates.count)")
            }
            self = certificates[0]
        }

        /// Reads certificates, in the order of the text.
        ///
        /// - Parameter pem: Text with any number of certificates. Other parts, such as keys, are skipped.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it has none, or one that cannot be read.
        public static func chain(pem: String) throws(LockboxError) -> [CertificateItem] {
            let found = try documents(pem).filter { $0.discriminator == "CERTIFICATE" }
            if found.isEmpty { throw .invalidCertificate("the text contains no certificate") }
            var certificates: [CertificateItem] = []
            for document in found {
                let certificate = CertificateItem(der: Data(document.derBytes))
                _ = try X509.Certificate(certificate)
                certificates.append(certificate)
            }
            return certificates
        }

        /// Creates a certificate from one of swift-certificates.
        ///
        /// - Parameter certificate: The certificate.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it cannot be written.
        public init(_ certificate: X509.Certificate) throws(LockboxError) {
            do {
                var serializer = DER.Serializer()
                try serializer.serialize(certificate)
                self.init(der: Data(serializer.serializedBytes))
            } catch { throw .invalidCertificate("\(error)") }
        }

        /// The certificate in PEM.
        public var pem: String { PEMDocument(type: "CERTIFICATE", derBytes: Array(der)).pemString + "\n" }

        /// Returns the certificate's searchable attributes.
        ///
        /// - Parameter label: A name for people.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if the certificate cannot be read.
        public func attributes(label: String? = nil) throws(LockboxError) -> Attributes {
            let certificate = try X509.Certificate(self)
            let identifier = try? certificate.extensions.subjectKeyIdentifier
            return Attributes(
                label: label,
                subject: "\(certificate.subject)",
                issuer: "\(certificate.issuer)",
                serialNumber: Data(certificate.serialNumber.bytes),
                subjectKeyID: identifier.map { Data($0.keyIdentifier) },
                publicKeyHash: publicKeyHash(certificate.publicKey.subjectPublicKeyInfoBytes),
                version: certificate.version == .v1 ? 1 : 3,
                notAfter: certificate.notValidAfter
            )
        }
    }

    extension X509.Certificate {
        /// Creates a certificate from an item's value.
        ///
        /// - Parameter certificate: The item's value.
        /// - Throws: ``LockboxError/invalidAttribute(name:reason:)`` if it cannot be read.
        public init(_ certificate: CertificateItem) throws(LockboxError) {
            do { try self.init(derEncoded: Array(certificate.der)) } catch {
                throw .invalidCertificate("\(error)")
            }
        }
    }

    extension LockboxError {
        static func invalidCertificate(_ reason: String) -> LockboxError {
            .invalidAttribute(name: "certificate", reason: reason)
        }
    }

    /// The parts of a text in PEM.
    func documents(_ pem: String) throws(LockboxError) -> [PEMDocument] {
        do { return try PEMDocument.parseMultiple(pemString: pem) } catch {
            // The library's text could quote a part of a key.
            throw .invalidAttribute(name: "PEM", reason: "the text is not complete, or not Base64")
        }
    }
#endif
