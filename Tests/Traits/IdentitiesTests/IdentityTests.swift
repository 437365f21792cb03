import Foundation
import LockboxIdentities
import Testing
import X509

import Lockbox

/// Identities whose certificates `openssl` has made.
@Suite struct IdentityTests {
    private let openSSL: OpenSSL

    init() throws { openSSL = try OpenSSL() }

    /// Signs itself: `key.pem`, `certificate.pem`.
    private func makeCertificate(_ kind: Kind) throws {
        try openSSL.makeKey(kind)
        try openSSL(
            "req",
            "-x509",
            "-key",
            "key.pem",
            "-out",
            "certificate.pem",
            "-days",
            "30",
            "-utf8",
            "-set_serial",
            "0x00f1e2d3c4b5a69788",
            "-subj",
            "/C=DE/O=Größe, Co. \\+ Söhne/CN=example.com"
        )
    }

    /// An authority, an authority below it, and a server's certificate: `root`, `middle`, `leaf`.
    private func makeChain(_ kind: Kind) throws {
        try openSSL.makeKey(kind, "root.key")
        try openSSL(
            "req",
            "-x509",
            "-key",
            "root.key",
            "-out",
            "root.pem",
            "-days",
            "30",
            "-subj",
            "/CN=Root"
        )
        for (name, issuer) in [("middle", "root"), ("leaf", "middle")] {
            try openSSL.makeKey(kind, "\(name).key")
            try openSSL("req", "-new", "-key", "\(name).key", "-out", "\(name).csr", "-subj", "/CN=\(name)")
            try openSSL.write("basicConstraints = CA:\(name == "middle" ? "TRUE" : "FALSE")\n", "extensions")
            try openSSL(
                "x509",
                "-req",
                "-in",
                "\(name).csr",
                "-CA",
                "\(issuer).pem",
                "-CAkey",
                "\(issuer).key",
                "-set_serial",
                "4660",
                "-days",
                "10",
                "-extfile",
                "extensions",
                "-out",
                "\(name).pem"
            )
        }
    }

    private func value(_ line: String) -> String { String(line.drop { $0 != "=" }.dropFirst()) }

    @Test(arguments: Kind.signing) func attributesAreWhatOpenSSLSays(_ kind: Kind) throws {
        try makeCertificate(kind)
        let certificate = try CertificateItem(pem: openSSL.text("certificate.pem"))
        let attributes = try certificate.attributes(label: "web")
        let texts = attributes.searchable
        let names = try openSSL(
            "x509",
            "-in",
            "certificate.pem",
            "-noout",
            "-subject",
            "-nameopt",
            "RFC2253,-esc_msb,utf8"
        )
        #expect(texts["subj"] == value(names) && texts["issr"] == texts["subj"])
        let serial = try openSSL("x509", "-in", "certificate.pem", "-noout", "-serial")
        #expect(texts["slnr"] == value(serial).lowercased() && texts["slnr"] == "f1e2d3c4b5a69788")
        let end = try openSSL("x509", "-in", "certificate.pem", "-noout", "-enddate", "-dateopt", "iso_8601")
        #expect(texts["notAfter"] == value(end).replacingOccurrences(of: " ", with: "T"))
        let identifier = try openSSL(
            "x509",
            "-in",
            "certificate.pem",
            "-noout",
            "-ext",
            "subjectKeyIdentifier"
        )
        .split(separator: "\n").last.map { $0.filter(\.isHexDigit).lowercased() }
        #expect(texts["skid"] == identifier && texts["pkhh"] == identifier)
        #expect(texts["ctyp"] == "3" && texts["cenc"] == "3" && texts["labl"] == "web")
        let key = try PrivateKeyItem(pem: openSSL.text("key.pem"))
        #expect(try key.attributes().publicKeyHash == attributes.publicKeyHash)
    }

    @Test(arguments: Kind.signing) func anIdentityGoesThereAndBack(_ kind: Kind) throws {
        try makeCertificate(kind)
        let identity = try IdentityItem(
            chainPEM: openSSL.text("certificate.pem"),
            privateKeyPEM: openSSL.text("key.pem")
        )
        try openSSL("x509", "-in", "certificate.pem", "-outform", "DER", "-out", "certificate.der")
        #expect(try identity.chain == [openSSL.data("certificate.der")])
        // It refuses a file whose key is not that of the certificate.
        try openSSL.write(identity.pem, "identity.pem")
        try openSSL("pkcs12", "-export", "-in", "identity.pem", "-passout", "pass:x", "-out", "identity.p12")
        try openSSL(
            "pkcs12",
            "-in",
            "identity.p12",
            "-passin",
            "pass:x",
            "-nodes",
            "-out",
            "back.pem"
        )
        #expect(try IdentityItem(pem: openSSL.text("back.pem")) == identity)
        let parsed = try X509.Certificate(identity.certificate)
        #expect(try CertificateItem(parsed) == identity.certificate)
        #expect(identity.certificate.pem == identity.chainPEM)

        let other = try OpenSSL()
        for another in Kind.signing {
            try other.makeKey(another)
            let error = lockboxError {
                try IdentityItem(chainPEM: identity.chainPEM, privateKeyPEM: other.text("key.pem"))
            }
            guard case .invalidAttribute("private key", let reason) = error else {
                Issue.record("a key of another certificate: \(error as Any)")
                continue
            }
            #expect(reason.hasPrefix("it does not belong to the certificate of CN=example.com,"))
        }
    }

    @Test func aChainIsFoundAndReplacedWhole() throws {
        try makeChain(.p256)
        let chain = try openSSL.text("leaf.pem") + openSSL.text("middle.pem") + openSSL.text("root.pem")
        let identity = try IdentityItem(chainPEM: chain, privateKeyPEM: openSSL.text("leaf.key"))
        #expect(identity.chain.count == 3)
        try openSSL.write(identity.chainPEM, "exported.pem")
        let verified = try openSSL(
            "verify",
            "-CAfile",
            "root.pem",
            "-untrusted",
            "exported.pem",
            "exported.pem"
        )
        #expect(verified == "exported.pem: OK")

        let lockbox = try Lockbox(keyPrefix: "p", backend: InMemoryBackend())
        let attributes = try identity.attributes(label: "web", tag: "server")
        #expect(attributes.privateKey.publicKeyHash == attributes.certificate.publicKeyHash)
        try lockbox.archiveObject(identity, forKey: attributes.key("tls"))
        let queries: [CertificateItem.Attributes] = [
            .init(label: "web"), .init(subject: "CN=leaf"),
            .init(issuer: "CN=middle", serialNumber: Data([0x12, 0x34])),
            .init(publicKeyHash: try identity.privateKey.attributes().publicKeyHash),
        ]
        for query in queries {
            let found = try lockbox.list(matching: IdentityItem.Attributes(certificate: query).searchable)
                .items
            #expect(found.keys.sorted() == ["tls"], "\(query)")
            #expect(found["tls"].flatMap(IdentityItem.Attributes.init) == attributes)
        }
        #expect(try lockbox.unarchiveObject(IdentityItem.self, forKey: "tls") == identity)
    }

    @Test func aChainInAnotherOrderIsRefused() throws {
        try makeChain(.ed25519)
        let (leaf, middle) = try (openSSL.text("leaf.pem"), openSSL.text("middle.pem"))
        let (root, key) = try (openSSL.text("root.pem"), openSSL.text("leaf.key"))
        func error(_ chain: String) -> LockboxError? {
            lockboxError { try IdentityItem(chainPEM: chain, privateKeyPEM: key) }
        }
        #expect(error(leaf) == nil && error(leaf + middle) == nil && error(leaf + middle + root) == nil)
        #expect(
            error(leaf + root)
                == .invalidAttribute(
                    name: "chain",
                    reason: "certificate 2 has the subject CN=Root, but certificate 1 was issued by CN=middle"
                )
        )
        #expect(
            error(middle + leaf)
                == .invalidAttribute(
                    name: "private key",
                    reason: "it does not belong to the certificate of CN=middle"
                )
        )
        #expect(
            error(key) == .invalidAttribute(name: "certificate", reason: "the text contains no certificate")
        )
        let identity = try IdentityItem(
            chain: [CertificateItem(pem: root)],
            privateKey: PrivateKeyItem(pem: key)
        )
        #expect(lockboxError { try identity.attributes() }?.code == .invalidAttribute)
    }

    @Test func whatIsNoCertificateIsRefused() throws {
        try makeCertificate(.p384)
        let certificate = try CertificateItem(pem: openSSL.text("certificate.pem"))
        for length in 0..<certificate.der.count {
            let part = CertificateItem(der: certificate.der.prefix(length))
            #expect(lockboxError { try part.attributes() }?.code == .invalidAttribute)
        }
        let twice = certificate.pem + certificate.pem
        #expect(
            lockboxError { try CertificateItem(pem: twice) }
                == .invalidAttribute(name: "certificate", reason: "expected one certificate, found 2")
        )
        let short = certificate.pem.split(separator: "\n").enumerated().filter { $0.offset != 1 }.map(
            \.element
        )
        #expect(
            lockboxError { try CertificateItem(pem: short.joined(separator: "\n")) }?.code
                == .invalidAttribute
        )
    }

    /// An X25519 key cannot sign, so it is no certificate's.
    @Test func aKeyThatCannotSignIsRefused() throws {
        try makeCertificate(.ed25519)
        try openSSL.makeKey(.x25519, "other.pem")
        let error = lockboxError {
            try IdentityItem(
                chainPEM: openSSL.text("certificate.pem"),
                privateKeyPEM: openSSL.text("other.pem")
            )
        }
        #expect(error?.code == .invalidAttribute)
    }

    @Test func printingShowsNoKey() throws {
        try makeCertificate(.ed25519)
        let identity = try IdentityItem(
            chainPEM: openSSL.text("certificate.pem"),
            privateKeyPEM: openSSL.text("key.pem")
        )
        var dumped = ""
        dump(identity, to: &dumped)
        #expect("\(identity)" == "IdentityItem(1 certificates)")
        let bytes = identity.pkcs8.suffix(32).map(String.init).joined(separator: ", ")
        for text in [dumped, String(reflecting: identity), "\([identity])"] {
            #expect(!text.contains(bytes) && !text.contains("pkcs8"))
        }
    }
}
