import Crypto
import Foundation
import LockboxIdentities
import NIOSSL
import SwiftASN1
import X509

import Lockbox

/// A certificate authority in memory. Each identity that it makes has an intermediate authority of its own, so that a chain which
/// is mixed from two does not verify.
struct Authority: Sendable {
    let certificate: CertificateItem
    private let issuer: Issuer

    private struct Issuer: Sendable {
        let name: DistinguishedName
        let key: P256.Signing.PrivateKey
    }

    init(_ name: String) throws {
        issuer = Issuer(name: try DistinguishedName { CommonName(name) }, key: P256.Signing.PrivateKey())
        certificate = try Self.certificate(issuer, issuer, Self.authorityExtensions())
    }

    func identity(_ name: String) throws -> IdentityItem {
        let middle = Issuer(
            name: try DistinguishedName { CommonName("\(name) authority") },
            key: P256.Signing.PrivateKey()
        )
        let server = Issuer(
            name: try DistinguishedName { CommonName(name) },
            key: P256.Signing.PrivateKey()
        )
        let leaf = try Self.certificate(server, middle, Self.serverExtensions())
        return try IdentityItem(
            chain: [leaf, Self.certificate(middle, issuer, Self.authorityExtensions())],
            privateKey: PrivateKeyItem(server.key)
        )
    }

    /// For a client that trusts this authority only.
    func trust() throws -> NIOSSLTrustRoots {
        .certificates([try NIOSSLCertificate(bytes: Array(certificate.der), format: .der)])
    }

    private static func certificate(
        _ subject: Issuer,
        _ issuer: Issuer,
        _ extensions: X509.Certificate.Extensions
    )
        throws -> CertificateItem
    {
        let now = Date()
        return try CertificateItem(
            X509.Certificate(
                version: .v3,
                serialNumber: X509.Certificate.SerialNumber(),
                publicKey: X509.Certificate.PublicKey(subject.key.publicKey),
                notValidBefore: now - 3600,
                notValidAfter: now + 86_400,
                issuer: issuer.name,
                subject: subject.name,
                signatureAlgorithm: .ecdsaWithSHA256,
                extensions: extensions,
                issuerPrivateKey: X509.Certificate.PrivateKey(issuer.key)
            )
        )
    }

    private static func authorityExtensions() throws -> X509.Certificate.Extensions {
        try X509.Certificate.Extensions {
            Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
            Critical(KeyUsage(keyCertSign: true))
        }
    }

    /// etcd's gateway calls its own server as a client.
    private static func serverExtensions() throws -> X509.Certificate.Extensions {
        try X509.Certificate.Extensions {
            Critical(BasicConstraints.notCertificateAuthority)
            try ExtendedKeyUsage([.serverAuth, .clientAuth])
            SubjectAlternativeNames([.dnsName("localhost"), .ipAddress(.init(contentBytes: [127, 0, 0, 1]))])
        }
    }
}
