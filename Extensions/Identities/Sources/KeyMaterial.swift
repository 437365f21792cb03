#if Identities
    import Crypto
    import CryptoExtras
    import LockboxCore
    import LockboxPlatform
    import SwiftASN1
    import X509

    /// A private key as swift-crypto has it.
    enum KeyMaterial {
        case p256(P256.Signing.PrivateKey)
        case p384(P384.Signing.PrivateKey)
        case p521(P521.Signing.PrivateKey)
        case ed25519(Curve25519.Signing.PrivateKey)
        case x25519(Curve25519.KeyAgreement.PrivateKey)
        case rsa(_RSA.Signing.PrivateKey)

        /// - Parameter der: PKCS#8, or SEC1 for the curves of NIST, or PKCS#1 for RSA.
        init(der: some Sequence<UInt8>) throws(LockboxError) {
            let bytes = Array(der)
            do {
                guard let outer = try? PKCS8(bytes) else {
                    self = try Self(withoutAlgorithm: bytes)
                    return
                }
                self = try Self(outer, bytes)
            } catch let error as LockboxError { throw error } catch CryptoKitError.incorrectParameterSize {
                throw .invalidKeyData("its length is not supported; RSA keys have at least 2,048 bits")
            } catch {
                // The libraries' texts could quote a part of the key.
                throw .invalidKeyData("it is damaged, encrypted or of a form that is not supported")
            }
        }

        private init(_ outer: PKCS8, _ bytes: [UInt8]) throws {
            switch (outer.algorithm, outer.curve) {
            case ([1, 2, 840, 10045, 2, 1], [1, 2, 840, 10045, 3, 1, 7]):
                self = .p256(try P256.Signing.PrivateKey(derRepresentation: bytes))
            case ([1, 2, 840, 10045, 2, 1], [1, 3, 132, 0, 34]):
                self = .p384(try P384.Signing.PrivateKey(derRepresentation: bytes))
            case ([1, 2, 840, 10045, 2, 1], [1, 3, 132, 0, 35]):
                self = .p521(try P521.Signing.PrivateKey(derRepresentation: bytes))
            case ([1, 3, 101, 112], _):
                self = .ed25519(try Curve25519.Signing.PrivateKey(rawRepresentation: outer.octets()))
            case ([1, 3, 101, 110], _):
                self = .x25519(try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: outer.octets()))
            case ([1, 2, 840, 113549, 1, 1, 1], _):
                self = .rsa(try _RSA.Signing.PrivateKey(derRepresentation: outer.key))
            default:
                throw LockboxError.invalidKeyData(
                    "its algorithm is not supported: P-256, P-384, P-521, Ed25519, X25519 and RSA are"
                )
            }
        }

        /// PKCS#1 begins with a version and a large number, SEC1 with a version and the key's octets.
        private init(withoutAlgorithm bytes: [UInt8]) throws {
            if let key = try? P256.Signing.PrivateKey(derRepresentation: bytes) {
                self = .p256(key)
            } else if let key = try? P384.Signing.PrivateKey(derRepresentation: bytes) {
                self = .p384(key)
            } else if let key = try? P521.Signing.PrivateKey(derRepresentation: bytes) {
                self = .p521(key)
            } else {
                self = .rsa(try _RSA.Signing.PrivateKey(derRepresentation: bytes))
            }
        }

        var pkcs8: Data {
            switch self {
            case .p256(let key): key.derRepresentation
            case .p384(let key): key.derRepresentation
            case .p521(let key): key.derRepresentation
            case .ed25519(let key): key.derRepresentation
            case .x25519(let key): key.derRepresentation
            case .rsa(let key): key.pkcs8DERRepresentation
            }
        }

        /// The bits that a certificate has of the public key.
        var publicKey: Data {
            switch self {
            case .p256(let key): key.publicKey.x963Representation
            case .p384(let key): key.publicKey.x963Representation
            case .p521(let key): key.publicKey.x963Representation
            case .ed25519(let key): key.publicKey.rawRepresentation
            case .x25519(let key): key.publicKey.rawRepresentation
            case .rsa(let key): key.publicKey.pkcs1DERRepresentation
            }
        }

        var algorithm: PrivateKeyItem.Algorithm {
            switch self {
            case .p256, .p384, .p521: .ellipticCurve
            case .ed25519: .ed25519
            case .x25519: .x25519
            case .rsa: .rsa
            }
        }

        var bitCount: Int {
            switch self {
            case .p256, .ed25519, .x25519: 256
            case .p384: 384
            case .p521: 521
            case .rsa(let key): key.keySizeInBits
            }
        }

        /// Returns it as a certificate's key; nil for a key that cannot sign.
        var certificateKey: X509.Certificate.PublicKey? {
            switch self {
            case .p256(let key): X509.Certificate.PublicKey(key.publicKey)
            case .p384(let key): X509.Certificate.PublicKey(key.publicKey)
            case .p521(let key): X509.Certificate.PublicKey(key.publicKey)
            case .ed25519(let key): X509.Certificate.PublicKey(key.publicKey)
            case .x25519: nil
            case .rsa(let key): X509.Certificate.PublicKey(key.publicKey)
            }
        }
    }

    /// The frame that RFC 5958 puts around a key.
    private struct PKCS8 {
        let algorithm: ASN1ObjectIdentifier
        /// If it is a curve's.
        let curve: ASN1ObjectIdentifier?
        let key: [UInt8]

        init(_ bytes: [UInt8]) throws {
            self = try DER.sequence(DER.parse(bytes), identifier: .sequence) { nodes in
                _ = try Int(derEncoded: &nodes)
                guard let identifier = nodes.next() else { throw Incomplete() }
                let (algorithm, curve) = try DER.sequence(identifier, identifier: .sequence) { parts in
                    let algorithm = try ASN1ObjectIdentifier(derEncoded: &parts)
                    let parameter = parts.next()
                    return (algorithm, parameter.flatMap { try? ASN1ObjectIdentifier(derEncoded: $0) })
                }
                let key = try ASN1OctetString(derEncoded: &nodes)
                // Attributes and the public key may follow.
                while nodes.next() != nil {}
                return PKCS8(algorithm: algorithm, curve: curve, key: Array(key.bytes))
            }
        }

        private init(algorithm: ASN1ObjectIdentifier, curve: ASN1ObjectIdentifier?, key: [UInt8]) {
            self.algorithm = algorithm
            self.curve = curve
            self.key = key
        }

        /// The key of Curve25519: RFC 8410 puts octets into the octets.
        func octets() throws -> [UInt8] { try Array(ASN1OctetString(derEncoded: key).bytes) }

        private struct Incomplete: Error {}
    }

    extension LockboxError {
        static func invalidKeyData(_ reason: String) -> LockboxError {
            .invalidAttribute(name: "private key", reason: reason)
        }
    }

    /// SHA-1 of the public key's bits, which is not for security: Apple's Keychain finds keys by it.
    func publicKeyHash(_ bits: some Sequence<UInt8>) -> Data { Data(Insecure.SHA1.hash(data: Array(bits))) }
#endif
