import Clibsodium
import LockboxPlatform

/// A recipient's part of the header: it wraps the file key.
struct AgeStanza: Equatable {
    let type: String
    let arguments: [String]
    let body: [UInt8]
}

extension AgeStanza {
    private static let x25519Label = Array("age-encryption.org/v1/X25519".utf8)
    private static let scryptLabel = Array("age-encryption.org/v1/scrypt".utf8)

    static func wrapping(_ fileKey: WipedBytes, to recipient: AgeRecipient) throws(AgeError) -> AgeStanza {
        switch recipient {
        case .x25519(let publicKey):
            let ephemeral = WipedBytes(random: 32)
            let share = X25519.publicKey(of: ephemeral)
            guard let shared = X25519.shared(ephemeral, publicKey.bytes) else {
                throw .key("the recipient is a point of low order")
            }
            let key = HKDF.key(shared, salt: share + publicKey.bytes, x25519Label)
            return AgeStanza(type: "X25519", arguments: [Base64.encode(share)], body: wrap(fileKey, key))
        case .passphrase(let passphrase, let workFactor):
            let salt = WipedBytes(random: 16).withBytes { Array($0) }
            let key = try scrypt(passphrase, salt, workFactor)
            return AgeStanza(
                type: "scrypt",
                arguments: [Base64.encode(salt), "\(workFactor)"],
                body: wrap(fileKey, key)
            )
        }
    }

    /// Returns nil if it is for another identity.
    func fileKey(_ identity: AgeIdentity) throws(AgeError) -> WipedBytes? {
        switch (identity, type) {
        case (.fileKey(let key), _): return key
        case (.x25519(let privateKey), "X25519"):
            guard arguments.count == 1, let share = Base64.decode(arguments[0]), share.count == 32,
                body.count == 32
            else {
                throw .header("an X25519 recipient is not well-formed")
            }
            guard let shared = X25519.shared(privateKey.bytes, share) else {
                throw .header("an X25519 share is a point of low order")
            }
            return unwrap(HKDF.key(shared, salt: share + privateKey.publicKey.bytes, Self.x25519Label))
        case (.passphrase(let passphrase, let maximum), "scrypt"):
            guard arguments.count == 2, let salt = Base64.decode(arguments[0]), salt.count == 16,
                body.count == 32,
                arguments[1].utf8.allSatisfy({ (48...57).contains($0) }), arguments[1].first != "0",
                let factor = Int(arguments[1])
            else { throw .header("the scrypt recipient is not well-formed") }
            if factor > maximum { throw .workFactor(factor, maximum: maximum) }
            return unwrap(try Self.scrypt(passphrase, salt, factor))
        default: return nil
        }
    }

    private static func scrypt(_ passphrase: WipedBytes, _ salt: [UInt8], _ workFactor: Int) throws(AgeError)
        -> WipedBytes
    {
        guard (1...30).contains(workFactor) else { throw .workFactor(workFactor, maximum: 30) }
        _ = Age.ready
        let salt = scryptLabel + salt
        var result: CInt = 0
        let key = WipedBytes(count: 32) { output in
            result = passphrase.withBytes { passphrase in
                crypto_pwhash_scryptsalsa208sha256_ll(
                    passphrase.bindMemory(to: UInt8.self).baseAddress!,
                    passphrase.count,
                    salt,
                    salt.count,
                    1 << workFactor,
                    8,
                    1,
                    output.baseAddress!.assumingMemoryBound(to: UInt8.self),
                    32
                )
            }
        }
        if result != 0 { throw .notEnoughMemory(bytes: 1024 << workFactor) }
        return key
    }

    /// Each of these keys wraps one file key only, so the nonce is zero.
    private static func wrap(_ fileKey: WipedBytes, _ key: WipedBytes) -> [UInt8] {
        fileKey.withBytes { bytes in
            var output = [UInt8](repeating: 0, count: bytes.count + ChaCha20Poly1305.overhead)
            ChaCha20Poly1305.seal(bytes, key, nonce: ChaCha20Poly1305.zero, into: &output)
            return output
        }
    }

    private func unwrap(_ key: WipedBytes) -> WipedBytes? {
        var output = [UInt8](repeating: 0, count: 16)
        guard
            body.withUnsafeBytes({
                ChaCha20Poly1305.open($0, key, nonce: ChaCha20Poly1305.zero, into: &output)
            })
        else {
            return nil
        }
        return WipedBytes(&output)
    }
}

/// The text before the payload.
struct AgeHeader {
    static let intro = Array("age-encryption.org/v1".utf8)
    /// age's own limits.
    static let maximumLength = 16 << 20
    static let maximumStanza = 1 << 20
    /// Our own: each stanza may cost a multiplication on the curve for each private key.
    static let maximumStanzas = 1024
    private static let column = 64

    let stanzas: [AgeStanza]
    let mac: [UInt8]
    /// The header up to the dashes, of which the MAC is.
    let authenticated: [UInt8]

    init(_ stanzas: [AgeStanza], fileKey: WipedBytes) {
        var bytes = Self.intro + [10]
        for stanza in stanzas {
            bytes += Array((["->", stanza.type] + stanza.arguments).joined(separator: " ").utf8) + [10]
            let body = Array(Base64.encode(stanza.body).utf8)
            // The last line is a short one, if need be an empty one.
            for start in stride(from: 0, through: body.count, by: Self.column) {
                bytes += body[start..<min(start + Self.column, body.count)] + [10]
            }
        }
        bytes += Array("---".utf8)
        self.stanzas = stanzas
        authenticated = bytes
        mac = Self.mac(bytes, fileKey)
    }

    var bytes: [UInt8] { authenticated + Array(" \(Base64.encode(mac))\n".utf8) }

    func isAuthentic(_ fileKey: WipedBytes) -> Bool {
        sodium_memcmp(mac, Self.mac(authenticated, fileKey), 32) == 0
    }

    private static func mac(_ bytes: [UInt8], _ fileKey: WipedBytes) -> [UInt8] {
        let key = HKDF.key(fileKey, salt: [], Array("header".utf8))
        return key.withBytes { key in bytes.withUnsafeBytes { HKDF.hmac(key, $0) } }
    }

    init(_ source: inout AgeSource) throws {
        guard try source.line(limit: Self.intro.count + 1) == Self.intro else { throw AgeError.notAge }
        var authenticated = Self.intro + [10]
        var stanzas: [AgeStanza] = []
        while true {
            guard var line = try source.line(limit: Self.maximumStanza) else { throw Self.cut }
            if line.starts(with: Array("---".utf8)) {
                let words = Self.words(line)
                guard words.count == 2, words[0] == "---", let mac = Base64.decode(words[1]), mac.count == 32
                else {
                    throw AgeError.header("its last line is not well-formed")
                }
                (self.stanzas, self.mac, self.authenticated) = (
                    stanzas, mac, authenticated + Array("---".utf8)
                )
                if stanzas.isEmpty { throw AgeError.header("it has no recipient") }
                return
            }
            if stanzas.count == Self.maximumStanzas {
                throw AgeError.header("it has more than \(Self.maximumStanzas) recipients")
            }
            let words = Self.words(line)
            guard words.count >= 2, words[0] == "->", words.allSatisfy(Self.isWord) else {
                throw AgeError.header("a recipient is not well-formed")
            }
            let start = authenticated.count
            authenticated += line + [10]
            var body: [UInt8] = []
            repeat {
                guard let next = try source.line(limit: Self.column + 1) else { throw Self.cut }
                guard let part = Base64.decode(String(decoding: next, as: UTF8.self)) else {
                    throw AgeError.header("the body of a recipient is not well-formed")
                }
                body += part
                line = next
                authenticated += line + [10]
                if authenticated.count - start > Self.maximumStanza
                    || authenticated.count > Self.maximumLength
                {
                    throw AgeError.header("it is too long")
                }
            } while line.count == Self.column
            stanzas.append(AgeStanza(type: words[1], arguments: Array(words[2...]), body: body))
        }
    }

    private static let cut = AgeError.header("it is cut short, or a line is too long")

    private static func words(_ line: [UInt8]) -> [String] {
        line.split(separator: 32, omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
    }

    private static func isWord(_ word: String) -> Bool {
        !word.isEmpty && word.utf8.allSatisfy { (33...126).contains($0) }
    }
}

/// Base64 without padding. libsodium refuses bits that are left over and not zero, so each has one text.
enum Base64 {
    static func encode(_ bytes: [UInt8]) -> String {
        let length = sodium_base64_encoded_len(bytes.count, variant)
        var text = [CChar](repeating: 0, count: length)
        sodium_bin2base64(&text, length, bytes, bytes.count, variant)
        return String(decoding: text.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    static func decode(_ text: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: text.utf8.count / 4 * 3 + 3)
        var count = 0
        let input = text.utf8.map { CChar(bitPattern: $0) }
        let result = sodium_base642bin(&bytes, bytes.count, input, input.count, nil, &count, nil, variant)
        guard result == 0 else { return nil }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    private static let variant = CInt(sodium_base64_VARIANT_ORIGINAL_NO_PADDING)
}

/// HKDF with SHA-256 (RFC 5869), for keys of 32 bytes. libsodium has it from 1.0.19 on.
enum HKDF {
    static func key(_ input: WipedBytes, salt: [UInt8], _ info: [UInt8]) -> WipedBytes {
        let salt = salt.isEmpty ? [UInt8](repeating: 0, count: 32) : salt
        var extracted = salt.withUnsafeBytes { salt in input.withBytes { hmac(salt, $0) } }
        defer { extracted.withUnsafeMutableBytes { sodium_memzero($0.baseAddress!, $0.count) } }
        var expanded = extracted.withUnsafeBytes { key in (info + [1]).withUnsafeBytes { hmac(key, $0) } }
        return WipedBytes(&expanded)
    }

    static func hmac(_ key: UnsafeRawBufferPointer, _ input: UnsafeRawBufferPointer) -> [UInt8] {
        _ = Age.ready
        var state = crypto_auth_hmacsha256_state()
        defer { sodium_memzero(&state, MemoryLayout.size(ofValue: state)) }
        let words = (key.bindMemory(to: UInt8.self), input.bindMemory(to: UInt8.self))
        var output = [UInt8](repeating: 0, count: 32)
        crypto_auth_hmacsha256_init(&state, words.0.baseAddress!, words.0.count)
        if let start = words.1.baseAddress {
            crypto_auth_hmacsha256_update(&state, start, UInt64(words.1.count))
        }
        crypto_auth_hmacsha256_final(&state, &output)
        return output
    }
}

/// ChaCha20-Poly1305 of RFC 8439.
enum ChaCha20Poly1305 {
    static let overhead = 16
    static let zero = [UInt8](repeating: 0, count: 12)

    static func seal(
        _ plaintext: UnsafeRawBufferPointer,
        _ key: WipedBytes,
        nonce: [UInt8],
        into output: inout [UInt8]
    ) {
        key.withBytes { key in
            _ = crypto_aead_chacha20poly1305_ietf_encrypt(
                &output,
                nil,
                plaintext.bindMemory(to: UInt8.self).baseAddress,
                UInt64(plaintext.count),
                nil,
                0,
                nil,
                nonce,
                key.baseAddress!.assumingMemoryBound(to: UInt8.self)
            )
        }
    }

    /// Returns false if the box is not authentic.
    static func open(
        _ box: UnsafeRawBufferPointer,
        _ key: WipedBytes,
        nonce: [UInt8],
        into output: inout [UInt8]
    ) -> Bool {
        key.withBytes { key in
            crypto_aead_chacha20poly1305_ietf_decrypt(
                &output,
                nil,
                nil,
                box.baseAddress!.assumingMemoryBound(to: UInt8.self),
                UInt64(box.count),
                nil,
                0,
                nonce,
                key.baseAddress!.assumingMemoryBound(to: UInt8.self)
            ) == 0
        }
    }
}
