import Clibsodium
package import LockboxPlatform

/// A key or passphrase to which a file is encrypted.
package enum AgeRecipient: Sendable {
    /// The public key of an identity.
    case x25519(AgePublicKey)
    /// A passphrase, and the cost of a guess at it: 2 to this power passes of scrypt over 1 KiB each. It is a file's only recipient.
    case passphrase(WipedBytes, workFactor: Int = 18)
}

/// A key or passphrase that opens a file.
package enum AgeIdentity: Sendable {
    case x25519(AgePrivateKey)
    case passphrase(WipedBytes, maximumWorkFactor: Int = 22)
    /// The key that the others unwrap: see ``AgeDecryptor/fileKey``.
    case fileKey(WipedBytes)
}

extension AgeIdentity {
    package var isKey: Bool { if case .x25519 = self { true } else { false } }
}

/// A public key of X25519, as text `age1…`.
package struct AgePublicKey: Sendable, Hashable {
    package let bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }

    package init(_ text: some StringProtocol) throws(AgeError) {
        guard let (name, bytes) = Bech32.decode(text), name == "age", bytes.count == 32 else {
            throw .key("it is not a recipient of age, which begins with age1")
        }
        // Every reader could open what is encrypted to a key of low order.
        guard X25519.shared(WipedBytes(random: 32), bytes) != nil else {
            throw .key("it is no key of X25519")
        }
        self.bytes = bytes
    }

    package var text: String { Bech32.encode("age", bytes) }
}

/// A private key of X25519, as text `AGE-SECRET-KEY-1…`. It is wiped when its last reference is gone.
package final class AgePrivateKey: Sendable {
    let bytes: WipedBytes
    package let publicKey: AgePublicKey

    /// Makes a new key.
    package convenience init() { self.init(WipedBytes(random: 32)) }

    package convenience init(_ text: some StringProtocol) throws(AgeError) {
        // The bytes have no other copy, so that these are wiped.
        var decoded = Bech32.decode(text)
        guard decoded?.name == "AGE-SECRET-KEY-", decoded?.bytes.count == 32 else {
            throw .key("it is not an identity of age, which begins with AGE-SECRET-KEY-1")
        }
        self.init(WipedBytes(&decoded!.bytes))
    }

    private init(_ bytes: WipedBytes) {
        self.bytes = bytes
        publicKey = AgePublicKey(bytes: X25519.publicKey(of: bytes))
    }

    package var text: String { Bech32.encode("AGE-SECRET-KEY-", bytes.withBytes { Array($0) }) }
}

enum X25519 {
    static func publicKey(of key: WipedBytes) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: 32)
        key.withBytes {
            _ = crypto_scalarmult_base(&output, $0.baseAddress!.assumingMemoryBound(to: UInt8.self))
        }
        return output
    }

    /// Returns nil if the result is zero: the other key is of low order.
    static func shared(_ key: WipedBytes, _ other: [UInt8]) -> WipedBytes? {
        var isValid = true
        let shared = WipedBytes(count: 32) { output in
            isValid = key.withBytes { key in
                crypto_scalarmult(
                    output.baseAddress!.assumingMemoryBound(to: UInt8.self),
                    key.baseAddress!.assumingMemoryBound(to: UInt8.self),
                    other
                ) == 0
            }
        }
        return isValid ? shared : nil
    }
}

/// Bytes as text with a checksum (BIP 173). age uses it without its limit of length.
enum Bech32 {
    private static let digits = Array("qpzry9x8gf2tvdw0s3jn54khce6mua7l".utf8)

    static func encode(_ name: String, _ bytes: [UInt8]) -> String {
        let isUpper = name == name.uppercased()
        let values = regroup(bytes, from: 8, to: 5, padding: true) ?? []
        let input = expand(Array(name.lowercased().utf8)) + values
        let sum = checksum(input + [0, 0, 0, 0, 0, 0]) ^ 1
        let check = (0..<6).map { UInt8(truncatingIfNeeded: sum >> (25 - 5 * $0)) & 31 }
        let characters = (values + check).map { digits[Int($0)] }
        let text = "\(name.lowercased())1\(String(decoding: characters, as: UTF8.self))"
        return isUpper ? text.uppercased() : text
    }

    static func decode(_ text: some StringProtocol) -> (name: String, bytes: [UInt8])? {
        let text = String(text)
        let lower = text.lowercased()
        guard text == lower || text == text.uppercased(),
            let one = lower.utf8.lastIndex(of: UInt8(ascii: "1"))
        else {
            return nil
        }
        let name = Array(lower.utf8[..<one])
        let values = lower.utf8[lower.utf8.index(after: one)...].compactMap {
            digits.firstIndex(of: $0).map(UInt8.init)
        }
        guard !name.isEmpty, name.allSatisfy({ (33...126).contains($0) }), values.count >= 6,
            name.count + 1 + values.count == text.utf8.count, checksum(expand(name) + values) == 1,
            let bytes = regroup(Array(values.dropLast(6)), from: 5, to: 8, padding: false)
        else { return nil }
        return (String(text.prefix(name.count)), bytes)
    }

    private static func expand(_ name: [UInt8]) -> [UInt8] {
        name.map { $0 >> 5 } + [0] + name.map { $0 & 31 }
    }

    private static func checksum(_ values: [UInt8]) -> UInt32 {
        var sum: UInt32 = 1
        for value in values {
            let top = sum >> 25
            sum = (sum & 0x1FF_FFFF) << 5 ^ UInt32(value)
            for (bit, term) in [0x3B6A_57B2, 0x2650_8E6D, 0x1EA1_19FA, 0x3D42_33DD, 0x2A14_62B3].enumerated()
            where top >> bit & 1 == 1 {
                sum ^= UInt32(term)
            }
        }
        return sum
    }

    /// Returns nil if what is left over is not zero.
    private static func regroup(_ input: [UInt8], from: Int, to: Int, padding: Bool) -> [UInt8]? {
        var (rest, count, output): (UInt32, Int, [UInt8]) = (0, 0, [])
        for value in input {
            rest = (rest << from | UInt32(value)) & 0xFFF
            count += from
            while count >= to {
                count -= to
                output.append(UInt8(truncatingIfNeeded: rest >> count & (1 << to - 1)))
            }
        }
        let left = rest & (1 << count - 1)
        if padding {
            if count > 0 { output.append(UInt8(left << (to - count))) }
        } else if count >= from || left != 0 {
            return nil
        }
        return output
    }
}

extension WipedBytes {
    convenience init(random count: Int) {
        _ = Age.ready
        self.init(count: count) { randombytes_buf($0.baseAddress!, count) }
    }
}
