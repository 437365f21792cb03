#if FIDO2
    import CCrypto

    /// The cryptography of CTAP's first PIN protocol.
    enum Cryptography {
        static func sha256(_ bytes: [UInt8]) -> [UInt8] {
            var output = [UInt8](repeating: 0, count: 32)
            SHA256(bytes, bytes.count, &output)
            return output
        }

        static func hmac(_ key: [UInt8], _ bytes: [UInt8]) -> [UInt8] {
            var output = [UInt8](repeating: 0, count: 32)
            HMAC(EVP_sha256(), key, CInt(key.count), bytes, bytes.count, &output, nil)
            return output
        }

        /// AES-256-CBC without padding, with a zero initialization vector.
        static func aes(_ key: [UInt8], _ bytes: [UInt8], encrypts: Bool) -> [UInt8] {
            let context = EVP_CIPHER_CTX_new()
            defer { EVP_CIPHER_CTX_free(context) }
            var output = [UInt8](repeating: 0, count: bytes.count + 16)
            var length: CInt = 0
            let vector = [UInt8](repeating: 0, count: 16)
            EVP_CipherInit_ex(context, EVP_aes_256_cbc(), nil, key, vector, encrypts ? 1 : 0)
            EVP_CIPHER_CTX_set_padding(context, 0)
            EVP_CipherUpdate(context, &output, &length, bytes, CInt(bytes.count))
            return Array(output.prefix(Int(length)))
        }

        /// A key pair on P-256.
        final class KeyPair {
            private let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1)
            private let number = BN_new()

            init() { BN_rand_range(number, EC_GROUP_get0_order(group)) }

            deinit {
                BN_free(number)
                EC_GROUP_free(group)
            }

            /// The public key as a COSE map.
            func cose(algorithm: Int) -> CBOR {
                let point = EC_POINT_new(group)
                defer { EC_POINT_free(point) }
                EC_POINT_mul(group, point, number, nil, nil, nil)
                let bytes = coordinates(of: point)
                return .map([
                    (.integer(1), .integer(2)), (.integer(3), .integer(algorithm)),
                    (.integer(-1), .integer(1)),
                    (.integer(-2), .bytes(Array(bytes[..<32]))), (.integer(-3), .bytes(Array(bytes[32...]))),
                ])
            }

            /// The hash of the secret that is shared with the owner of a public key.
            func shared(with cose: CBOR) -> [UInt8]? {
                guard let x = cose[-2]?.data, let y = cose[-3]?.data else { return nil }
                let (peer, product) = (EC_POINT_new(group), EC_POINT_new(group))
                defer {
                    EC_POINT_free(peer)
                    EC_POINT_free(product)
                }
                let bytes = [4] + x + y
                guard EC_POINT_oct2point(group, peer, bytes, bytes.count, nil) == 1,
                    EC_POINT_mul(group, product, nil, peer, number, nil) == 1
                else { return nil }
                return sha256(Array(coordinates(of: product)[..<32]))
            }

            private func coordinates(of point: OpaquePointer?) -> [UInt8] {
                var bytes = [UInt8](repeating: 0, count: 65)
                EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, &bytes, bytes.count, nil)
                return Array(bytes[1...])
            }
        }
    }
#endif
