#if SecretService
    import Foundation
    import Testing

    @testable import LockboxSecretService

    struct SessionCipherTests {
        /// The service's private key in both vectors.
        private static let exponent =
            "391bbdc56d4b641914716ce317e4afc3ba4a6f09067d02b1e1c4c808440cea2f7f919b4dba50f5317189a3e450984d952722c766c8ad7bcb1775"
            + "a9143a8b34970380a1ecbce738bc59f6666bbba15d2f74a5b3ed3bd822fd79857efa181c1cf594c20de1da7a6f09f593ecdb2409cbe3ec0807"
            + "b9b60db256f9fb81be90b70db4"
        private static let publicKey =
            "e3ed12175eae080331d35f380ff226c45095f2004c1cc44c2af1b0d4d6c8f9292b7b055b239d7a45155e1e8445b89fd4d0f83c3e6ed735809789"
            + "e838eaca417cf02cb4a586211bd893506969336d3d6bc30d66825bd53065b13248cbe576bf71b69c0a697d61a09a298042e7ff4a1500005ebb"
            + "c2880a7bec51e4abc386282ba1"
        private static let prime =
            "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404ddef9519b3cd3a431b302b"
            + "0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7edee386bfb5a899fa5ae9f24117c4b1fe649286651"
            + "ece65381ffffffffffffffff"

        /// A client's public key, and what it encrypts with the vector 00 01 … 0f.
        struct Vector: Sendable {
            let client: String
            let encrypted: String
        }

        /// Made with `secretstorage.dhcrypto` of Python's SecretStorage 3.3.3. In the second one, the shared number begins with a zero
        /// byte.
        private static let vectors = [
            Vector(
                client:
                    "9c7d6044b9c1f478df330e8d1798974cd12f58b24b25cfb81da139b8ac941a0755678bb099d3e2c4e7332b6dc0924d129dc3a6cbffc27b"
                    + "bc1ef1416e871489bd25d9c02cb5d98a63a5182c0e435be1e632d54bd32510d073bb9eb3108eea393482085d9b3447f3a3dc58117e05"
                    + "3268b435ae798575d061ec34d96efeeee516aa",
                encrypted: "760854f6c247559097c403a9a603ceb2"
            ),
            Vector(
                client:
                    "fd277c5288073e0ee0fa671538de81b1947a4891c3b613edbcb9ffa1aa7238bf66da3a0846fe413cd3b4329c300b3bce2f858deb8ba0b7"
                    + "5be2ddbf7a20d7df206963bb6df0884e99bf38748d440746e75c4e88065da62d09df286626ca367f0f64ccd612f3c3f19e24c5083d8e"
                    + "31229dde40d4520c13cf3afa170361caac0d6c",
                encrypted: "bb022923487bbd4466eb7c6fb148eea3"
            ),
        ]

        private static func bytes(_ text: String) -> [UInt8] {
            var rest = text[...]
            var bytes: [UInt8] = []
            while !rest.isEmpty {
                bytes.append(UInt8(rest.prefix(2), radix: 16)!)
                rest = rest.dropFirst(2)
            }
            return bytes
        }

        @Test("Another implementation's secrets open", arguments: vectors)
        func opens(_ vector: Vector) throws {
            let cipher = try SessionCipher(
                peer: Self.bytes(vector.client),
                exponent: Self.bytes(Self.exponent)
            )
            #expect(cipher.publicKey == Self.bytes(Self.publicKey))
            let value = try cipher.decrypt(Self.bytes(vector.encrypted), vector: Array(0..<16))
            #expect(value == Data("hunter2 ".utf8) + [0, 255])
        }

        @Test(
            "What one end encrypts, the other decrypts, each time to other bytes",
            arguments: [0, 1, 15, 16, 17, 100_000]
        )
        func roundTrip(_ count: Int) throws {
            let exponent = SessionCipher.random(128)
            // Its public key does not depend on the other one.
            let key = try SessionCipher(peer: [2], exponent: exponent).publicKey
            let client = try SessionCipher(peer: key)
            let service = try SessionCipher(peer: client.publicKey, exponent: exponent)
            let value = Data(SessionCipher.random(count))
            let (vector, bytes) = try client.encrypt(value)
            #expect(try service.decrypt(bytes, vector: vector) == value)
            #expect(try client.encrypt(value).bytes != bytes)
        }

        @Test("Keys that would make the secret known are refused")
        func weakKeys() {
            let prime = Self.bytes(Self.prime)
            let almost = prime.dropLast() + [prime.last! - 1]
            for key in [[], [0], [1], Array(repeating: 0, count: 128), prime, Array(almost), prime + [0]] {
                #expect(throws: BusError.self) { try SessionCipher(peer: key) }
            }
            #expect(throws: Never.self) { try SessionCipher(peer: prime.dropLast() + [prime.last! - 2]) }
        }

        @Test("What is not encrypted with the key is refused")
        func wrongBytes() throws {
            let cipher = try SessionCipher(peer: [2], exponent: [3])
            let (vector, bytes) = try cipher.encrypt(Data("hunter2".utf8))
            for (bytes, vector) in [
                (bytes, Array(vector.dropLast())), ([], vector), (Array(bytes.dropLast()), vector),
                (bytes + [0], vector), (bytes, []),
            ] {
                #expect(throws: BusError.self) { try cipher.decrypt(bytes, vector: vector) }
            }
            // A wrong last byte is no padding.
            var other = vector
            other[15] ^= 0x40
            #expect(throws: BusError.self) { try cipher.decrypt(bytes, vector: other) }
        }
    }
#endif
