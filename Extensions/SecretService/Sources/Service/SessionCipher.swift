#if SecretService
    import COpenSSL
    import LockboxPlatform

    /// The algorithm `dh-ietf1024-sha256-aes128-cbc-pkcs7`: a key of 128 bits by Diffie-Hellman, and AES with it.
    ///
    /// The socket is the user's alone, so it hides nothing that `plain` shows. Some clients insist on it.
    final class SessionCipher {
        static let name = "dh-ietf1024-sha256-aes128-cbc-pkcs7"
        private static let length = 128
        private static let blockLength = 16

        /// For the client.
        let publicKey: [UInt8]
        private var key: [UInt8]

        /// - Parameters:
        ///   - peer: The client's public key, a big-endian number.
        ///   - exponent: The private key; a random one, except in tests.
        /// - Throws: ``BusError`` unless 1 < `peer` < p - 1.
        init(peer: [UInt8], exponent: [UInt8] = SessionCipher.random(128)) throws(BusError) {
            guard peer.count <= Self.length, let context = BN_CTX_new(),
                let prime = BN_get_rfc2409_prime_1024(nil), let generator = BN_new(),
                let own = BN_bin2bn(exponent, CInt(exponent.count), nil),
                let other = BN_bin2bn(peer, CInt(peer.count), nil), let result = BN_new()
            else { throw .invalidArguments("The public key has more than 128 bytes.") }
            defer {
                for number in [prime, generator, own, other, result] { BN_clear_free(number) }
                BN_CTX_free(context)
            }
            BN_set_flags(own, BN_FLG_CONSTTIME)
            BN_set_word(generator, 2)
            BN_mod_exp(result, generator, own, prime, context)
            publicKey = Self.bytes(result)
            BN_sub_word(prime, 1)
            guard BN_cmp(other, BN_value_one()) > 0, BN_cmp(other, prime) < 0 else {
                throw .invalidArguments("The public key is no element of the group.")
            }
            BN_add_word(prime, 1)
            BN_mod_exp(result, other, own, prime, context)
            var secret = Self.bytes(result)
            key = Self.derived(secret)
            secret.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) }
        }

        deinit { key.withUnsafeMutableBytes { OPENSSL_cleanse($0.baseAddress, $0.count) } }

        /// Returns the initialization vector and the encrypted bytes.
        func encrypt(_ value: Data) throws(BusError) -> (vector: [UInt8], bytes: [UInt8]) {
            let vector = Self.random(Self.blockLength)
            return (vector, try run(Array(value), vector, encrypts: 1))
        }

        func decrypt(_ bytes: [UInt8], vector: [UInt8]) throws(BusError) -> Data {
            guard vector.count == Self.blockLength, !bytes.isEmpty,
                bytes.count.isMultiple(of: Self.blockLength)
            else { throw .invalidArguments("The secret is not encrypted as the session says.") }
            return Data(try run(bytes, vector, encrypts: 0))
        }

        private func run(_ input: [UInt8], _ vector: [UInt8], encrypts: CInt) throws(BusError) -> [UInt8] {
            guard let context = EVP_CIPHER_CTX_new() else {
                throw .failed("There is no memory for a secret.")
            }
            defer { EVP_CIPHER_CTX_free(context) }
            var output = [UInt8](repeating: 0, count: input.count + Self.blockLength)
            var (count, rest): (CInt, CInt) = (0, 0)
            guard EVP_CipherInit_ex(context, EVP_aes_128_cbc(), nil, key, vector, encrypts) == 1,
                EVP_CipherUpdate(context, &output, &count, input, CInt(input.count)) == 1
            else { throw .failed("The cipher failed.") }
            let isWhole = output.withUnsafeMutableBytes {
                EVP_CipherFinal_ex(
                    context,
                    $0.assumingMemoryBound(to: UInt8.self).baseAddress! + Int(count),
                    &rest
                )
            }
            guard isWhole == 1 else {
                throw .invalidArguments("The secret is not encrypted with the session's key.")
            }
            output.removeLast(output.count - Int(count + rest))
            return output
        }

        /// Padded at the left: other implementations hash it so.
        private static func bytes(_ number: OpaquePointer) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: length)
            BN_bn2binpad(number, &bytes, CInt(length))
            return bytes
        }

        /// HKDF-SHA256 without salt and info.
        private static func derived(_ secret: [UInt8]) -> [UInt8] {
            let extracted = authentication(of: secret, by: [UInt8](repeating: 0, count: 32))
            return Array(authentication(of: [1], by: extracted).prefix(blockLength))
        }

        private static func authentication(of bytes: [UInt8], by key: [UInt8]) -> [UInt8] {
            var result = [UInt8](repeating: 0, count: 32)
            HMAC(EVP_sha256(), key, CInt(key.count), bytes, bytes.count, &result, nil)
            return result
        }

        static func random(_ count: Int) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: count)
            precondition(RAND_bytes(&bytes, CInt(count)) == 1, "OpenSSL has no random numbers")
            return bytes
        }
    }
#endif
