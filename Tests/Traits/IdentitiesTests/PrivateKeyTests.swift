import Crypto
import CryptoExtras
import Foundation
import LockboxIdentities
import Testing

import Lockbox

/// `openssl` reads what is exported, and what it makes is read.
@Suite struct PrivateKeyTests {
    private let openSSL: OpenSSL

    init() throws { openSSL = try OpenSSL() }

    @Test(arguments: Kind.allCases) func aKeyOfOpenSSLGoesThereAndBack(_ kind: Kind) throws {
        try openSSL.makeKey(kind)
        let key = try PrivateKeyItem(pem: openSSL.text("key.pem"))
        let publicKey = try openSSL("pkey", "-in", "key.pem", "-pubout")

        try openSSL.write(key.pem, "pem")
        #expect(try openSSL("pkey", "-in", "pem", "-pubout") == publicKey)
        try openSSL.write(key.pkcs8, "der")
        #expect(try openSSL("pkey", "-inform", "DER", "-in", "der", "-pubout") == publicKey)
        #expect(try PrivateKeyItem(der: key.pkcs8) == key && PrivateKeyItem(pem: key.pem) == key)

        let attributes = try key.attributes(label: "l", tag: "t")
        #expect(attributes.algorithm == kind.algorithm && attributes.bitCount == kind.bitCount)
        #expect(attributes.label == "l" && attributes.tag == "t")
        // The bits are the end of what OpenSSL gives: an algorithm, and a string of bits without unused ones.
        try openSSL("pkey", "-in", "key.pem", "-pubout", "-outform", "DER", "-out", "public")
        let bits = try openSSL.data("public").suffix(kind == .rsa ? 270 : bitsLength(kind))
        #expect(attributes.publicKeyHash == Data(Insecure.SHA1.hash(data: bits)))
    }

    /// PKCS#8 in DER, both ways: what openssl writes is read, and what is written openssl reads as PKCS#8 and nothing else.
    @Test(arguments: Kind.allCases) func aKeyInDERGoesThereAndBack(_ kind: Kind) throws {
        try openSSL.makeKey(kind)
        try openSSL("pkcs8", "-topk8", "-nocrypt", "-in", "key.pem", "-outform", "DER", "-out", "key.der")
        let publicKey = try openSSL("pkey", "-inform", "DER", "-in", "key.der", "-pubout")
        let key = try PrivateKeyItem(der: openSSL.data("key.der"))
        #expect(try PrivateKeyItem(pem: openSSL.text("key.pem")) == key)

        try openSSL.write(key.pkcs8, "written.der")
        try openSSL("pkcs8", "-inform", "DER", "-nocrypt", "-in", "written.der", "-out", "read.pem")
        #expect(try openSSL("pkey", "-in", "read.pem", "-pubout") == publicKey)
        #expect(try openSSL("pkey", "-inform", "DER", "-in", "written.der", "-pubout") == publicKey)
        #expect(
            try openSSL("pkey", "-inform", "DER", "-in", "written.der", "-noout", "-check") == "Key is valid"
        )
        #expect(try PrivateKeyItem(pem: openSSL.text("read.pem")) == key)

        for length in stride(from: 0, to: key.pkcs8.count, by: kind == .rsa ? 37 : 1) {
            #expect(
                lockboxError { try PrivateKeyItem(der: key.pkcs8.prefix(length)) }?.code == .invalidAttribute
            )
        }
    }

    private func bitsLength(_ kind: Kind) -> Int {
        switch kind {
        case .p256: 65
        case .p384: 97
        case .p521: 133
        default: 32
        }
    }

    /// SEC1 and PKCS#1, in PEM and in DER.
    @Test(arguments: [Kind.p256, .p384, .p521, .rsa]) func traditionalFormsAreRead(_ kind: Kind) throws {
        try openSSL.makeKey(kind)
        let key = try PrivateKeyItem(pem: openSSL.text("key.pem"))
        try openSSL("pkey", "-in", "key.pem", "-traditional", "-out", "old.pem")
        let text = try openSSL.text("old.pem")
        #expect(text.contains(kind == .rsa ? "BEGIN RSA PRIVATE KEY" : "BEGIN EC PRIVATE KEY"))
        #expect(try PrivateKeyItem(pem: text) == key)
        try openSSL("pkey", "-in", "key.pem", "-traditional", "-outform", "DER", "-out", "old.der")
        #expect(try PrivateKeyItem(der: openSSL.data("old.der")) == key)
    }

    @Test func keysOfSwiftCryptoAreWritten() throws {
        let (p256, p384) = (P256.Signing.PrivateKey(), P384.Signing.PrivateKey())
        let (p521, ed25519) = (P521.Signing.PrivateKey(), Curve25519.Signing.PrivateKey())
        let x25519 = Curve25519.KeyAgreement.PrivateKey()
        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let keys: [(PrivateKeyItem, String)] = [
            (PrivateKeyItem(p256), p256.publicKey.pemRepresentation),
            (PrivateKeyItem(p384), p384.publicKey.pemRepresentation),
            (PrivateKeyItem(p521), p521.publicKey.pemRepresentation),
            (PrivateKeyItem(ed25519), ed25519.publicKey.pemRepresentation),
            (PrivateKeyItem(x25519), x25519.publicKey.pemRepresentation),
            (PrivateKeyItem(rsa), rsa.publicKey.pemRepresentation),
        ]
        for (key, publicKey) in keys {
            try openSSL.write(key.pem, "key.pem")
            #expect(try openSSL("pkey", "-in", "key.pem", "-pubout") == publicKey)
            try openSSL.write(key.pkcs8, "key.der")
            #expect(try openSSL("pkey", "-inform", "DER", "-in", "key.der", "-pubout") == publicKey)
        }
        #expect(try P256.Signing.PrivateKey(keys[0].0).rawRepresentation == p256.rawRepresentation)
        #expect(try P384.Signing.PrivateKey(keys[1].0).rawRepresentation == p384.rawRepresentation)
        #expect(try P521.Signing.PrivateKey(keys[2].0).rawRepresentation == p521.rawRepresentation)
        #expect(try Curve25519.Signing.PrivateKey(keys[3].0).rawRepresentation == ed25519.rawRepresentation)
        #expect(
            try Curve25519.KeyAgreement.PrivateKey(keys[4].0).rawRepresentation == x25519.rawRepresentation
        )
        #expect(try _RSA.Signing.PrivateKey(keys[5].0).derRepresentation == rsa.derRepresentation)

        let conversions: [(PrivateKeyItem) throws -> Any] = [
            { try P256.Signing.PrivateKey($0) }, { try P384.Signing.PrivateKey($0) },
            { try P521.Signing.PrivateKey($0) }, { try Curve25519.Signing.PrivateKey($0) },
            { try Curve25519.KeyAgreement.PrivateKey($0) }, { try _RSA.Signing.PrivateKey($0) },
        ]
        for (index, conversion) in conversions.enumerated() {
            for other in keys.indices where other != index {
                #expect(lockboxError { try conversion(keys[other].0) }?.code == .invalidAttribute)
            }
        }
    }

    /// A signature of a key that was stored is one of the key that OpenSSL made.
    @Test func aStoredKeySigns() throws {
        try openSSL.makeKey(.p256)
        let lockbox = try Lockbox(keyPrefix: "p", backend: InMemoryBackend())
        let key = try PrivateKeyItem(pem: openSSL.text("key.pem"))
        try lockbox.archiveObject(key, forKey: key.attributes(tag: "signing").key("k"))
        let stored = try #require(try lockbox.unarchiveObject(PrivateKeyItem.self, forKey: "k"))
        let message = Data("message".utf8)
        let signature = try P256.Signing.PrivateKey(stored).signature(for: message)
        try openSSL.write(message, "message")
        try openSSL.write(signature.derRepresentation, "signature")
        try openSSL("pkey", "-in", "key.pem", "-pubout", "-out", "public.pem")
        let said = try openSSL(
            "dgst",
            "-sha256",
            "-verify",
            "public.pem",
            "-signature",
            "signature",
            "message"
        )
        #expect(said == "Verified OK")
    }

    @Test func whatIsNoSupportedKeyIsRefused() throws {
        try openSSL.makeKey(.p256)
        let pem = try openSSL.text("key.pem")
        let base64 = pem.split(separator: "\n").dropFirst().dropLast().map(String.init)
        try openSSL("pkey", "-in", "key.pem", "-aes128", "-passout", "pass:x", "-out", "encrypted.pem")
        try openSSL(
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            "ec_paramgen_curve:secp256k1",
            "-out",
            "k1.pem"
        )
        try openSSL("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", "short.pem")
        let texts = try [
            ("", "expected one private key, found 0"),
            ("no PEM", "expected one private key, found 0"),
            (pem + pem, "expected one private key, found 2"),
            (
                openSSL.text("encrypted.pem"),
                "it is encrypted; decrypt it first, for example with openssl pkey"
            ),
            (
                openSSL.text("k1.pem"),
                "its algorithm is not supported: P-256, P-384, P-521, Ed25519, X25519 and RSA are"
            ),
            (
                openSSL.text("short.pem"),
                "its length is not supported; RSA keys have at least 2,048 bits"
            ),
            (
                pem.replacingOccurrences(of: "MIG", with: "MIH"),
                "it is damaged, encrypted or of a form that is not supported"
            ),
        ]
        for (text, reason) in texts {
            let error = lockboxError { try PrivateKeyItem(pem: text) }
            #expect(error == .invalidAttribute(name: "private key", reason: reason))
        }
        let noBase64 = lockboxError { try PrivateKeyItem(pem: pem.replacingOccurrences(of: "MI", with: "*")) }
        #expect(noBase64?.code == .invalidAttribute)
        for line in base64 { #expect(noBase64.map { "\($0)".contains(line) } == false) }

        let der = try PrivateKeyItem(pem: pem).pkcs8
        for length in 0..<der.count {
            #expect(lockboxError { try PrivateKeyItem(der: der.prefix(length)) }?.code == .invalidAttribute)
        }
        #expect(
            lockboxError { try PrivateKeyItem(pkcs8: Data([1])).attributes() }?.code == .invalidAttribute
        )
    }

    /// However it is printed.
    @Test func printingShowsNoKey() throws {
        let key = PrivateKeyItem(P256.Signing.PrivateKey())
        var dumped = ""
        dump(key, to: &dumped)
        #expect(
            "\(key) \(String(reflecting: key)) \(dumped)"
                == "PrivateKeyItem PrivateKeyItem - PrivateKeyItem\n"
        )
    }
}
