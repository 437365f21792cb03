import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxStore

struct OTPCommand: Command {
    static let help: CommandHelp = """
        otp: Print a one-time code.

        The value is an otpauth:// URI, has one as a line of its own, or is a secret in Base32. `set` stores any of them as it is: \
        `zbarimg -q --raw picture.png | lockbox set web/otp`. A terminal is told how long the code is good. The next counter \
        of otpauth://hotp is stored before its code is printed, so none is printed twice.

        Example: lockbox otp web/otp
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @OptionGroup var output: ClipOptions

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let place = try ItemKey(prefix: store.prefix, key: key)
        let now = Date()
        let password = try store.unlocking(for: key) { () throws -> OneTimePassword? in
            guard let item = try store.backend.item(for: place, now: now) else { return nil }
            let password = try OneTimePassword(item.value, key)
            return try password.period == nil ? count(place, store, now) : password
        }
        guard let password else { throw store.missing(key) }
        try output.print(Data(password.code(at: now).utf8), store)
        if let left = password.secondsLeft(at: now) { store.tell("The code is good for \(left) s.") }
    }

    /// Stores the next counter, and returns the password with the one before. Nil if the item is gone meanwhile.
    private func count(_ place: ItemKey, _ store: Store, _ now: Date) throws -> OneTimePassword? {
        var password: OneTimePassword?
        try store.backend.update(place, now: now) { old in
            password = try old.map { try OneTimePassword($0.value, key) }
            guard let old, let next = password?.next else { return old }
            let value = try old.value.with(text: next)
            let options = WriteOptions(policy: .updateOnly)
            return try ItemChanges(value: value, options: options, modified: now).item(after: old, for: place)
        }
        return password
    }
}

/// A password of RFC 6238, or of RFC 4226.
struct OneTimePassword {
    private var hash = Hash.sha1
    private let secret: [UInt8]
    private var digits = 6
    /// In seconds. Nil if codes are counted.
    private(set) var period: UInt64? = 30
    private var counter: UInt64 = 0
    /// The text with the next counter. Nil unless codes are counted.
    private(set) var next: String?

    init(_ value: ArchivedValue, _ key: String) throws {
        let text = String(decoding: try value.plain(key), as: UTF8.self)
        do { self = try Self(text) } catch let refused as Refused {
            throw Failure(
                .conflict,
                "The value for the key \(String(reflecting: key)) is no one-time password: \(refused.reason)."
            )
        }
    }

    init(_ text: String) throws {
        guard let uri = text.firstMatch(of: /(?im)^\s*otpauth:\/\/(totp|hotp)\/[^?\s]*\?(\S+)/) else {
            guard let secret = Self.base32(text), secret.count >= 10 else {
                throw Refused(
                    reason: "it has neither a URI otpauth://totp/… or otpauth://hotp/… nor a secret in Base32"
                )
            }
            self.secret = secret
            return
        }
        let parameters = Parameters(query: uri.2)
        guard let secret = parameters["secret"].flatMap(Self.base32) else {
            throw Refused(reason: "its secret is not Base32")
        }
        guard let hash = Hash(rawValue: (parameters["algorithm"] ?? "SHA1").lowercased()) else {
            throw Refused(reason: "its algorithm is none of SHA1, SHA256 and SHA512")
        }
        (self.hash, self.secret) = (hash, secret)
        digits = Int(try parameters.number("digits", in: 6...8, default: 6))
        if uri.1.lowercased() == "totp" {
            period = try parameters.number("period", in: 1...86400, default: 30)
            return
        }
        let place = uri.2.firstMatch(of: /(?i)(?:^|&)counter=([0-9]+)(?=&|$)/)?.1
        guard let place, let counter = UInt64(place), counter < .max else {
            throw Refused(reason: "its counter is missing or no number")
        }
        (period, self.counter) = (nil, counter)
        next = "\(text[..<place.startIndex])\(counter + 1)\(text[place.endIndex...])"
    }

    func code(at time: Date) -> String {
        let moving = period.map { Self.seconds(time) / $0 } ?? counter
        let mac = hash.mac(Self.bytes(moving), key: secret)
        let offset = Int(mac.last! & 15)
        let number = mac[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } & 0x7FFF_FFFF
        return String(String(number + 10_000_000_000).suffix(digits))
    }

    func secondsLeft(at time: Date) -> UInt64? { period.map { $0 - Self.seconds(time) % $0 } }

    private static func seconds(_ time: Date) -> UInt64 { UInt64(max(0, time.timeIntervalSince1970)) }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian, Array.init)
    }

    /// Also in small letters, with spaces and dashes, as sites show it.
    private static func base32(_ text: String) -> [UInt8]? {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)
        var (bits, count, bytes) = (UInt16(0), 0, [UInt8]())
        for character in text where !character.isWhitespace && !"-=".contains(character) {
            guard let ascii = character.asciiValue,
                let value = alphabet.firstIndex(of: character.isLowercase ? ascii - 32 : ascii)
            else { return nil }
            (bits, count) = (bits << 5 | UInt16(value), count + 5)
            if count < 8 { continue }
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> count))
        }
        return bytes.isEmpty ? nil : bytes
    }
}

private struct Refused: Error { let reason: String }

/// What follows the ? of a URI.
private struct Parameters {
    let query: Substring

    subscript(name: String) -> String? {
        query.split(separator: "&").map { $0.split(separator: "=", maxSplits: 1) }
            .first { $0.count == 2 && $0[0].lowercased() == name }.flatMap { References.decoded($0[1]) }
    }

    func number(_ name: String, in limits: ClosedRange<UInt64>, default usual: UInt64) throws -> UInt64 {
        if let number = self[name].map({ UInt64($0) }) ?? usual, limits ~= number { return number }
        throw Refused(reason: "its \(name) is not \(limits.lowerBound) to \(limits.upperBound)")
    }
}

/// The hashes of RFC 6238.
private enum Hash: String {
    case sha1, sha256, sha512

    /// HMAC of RFC 2104.
    func mac(_ message: [UInt8], key: [UInt8]) -> [UInt8] {
        let length = self == .sha512 ? 128 : 64
        let short = key.count > length ? digest(key) : key
        let block = short + [UInt8](repeating: 0, count: length - short.count)
        return digest(block.map { $0 ^ 0x5C } + digest(block.map { $0 ^ 0x36 } + message))
    }

    private func digest(_ bytes: [UInt8]) -> [UInt8] {
        switch self {
        case .sha1: Self.sha1(bytes)
        case .sha256: bytes.withUnsafeBytes(Sodium.sha256)
        case .sha512: bytes.withUnsafeBytes(Sodium.sha512)
        }
    }

    /// FIPS 180-4. libsodium has no SHA-1.
    private static func sha1(_ bytes: [UInt8]) -> [UInt8] {
        func turned(_ word: UInt32, _ bits: UInt32) -> UInt32 { word << bits | word >> (32 - bits) }
        var message = bytes + [0x80]
        message += [UInt8](repeating: 0, count: (120 - message.count % 64) % 64)
        message += withUnsafeBytes(of: UInt64(bytes.count * 8).bigEndian, Array.init)
        var hash: [UInt32] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0]
        for start in stride(from: 0, to: message.count, by: 64) {
            var words = stride(from: start, to: start + 64, by: 4).map { index in
                message[index..<index + 4].reduce(0) { $0 << 8 | UInt32($1) }
            }
            for index in 16..<80 {
                words.append(
                    turned(words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16], 1)
                )
            }
            var (a, b, c, d, e) = (hash[0], hash[1], hash[2], hash[3], hash[4])
            for (round, word) in words.enumerated() {
                let (mixed, constant): (UInt32, UInt32) =
                    switch round / 20 {
                    case 0: (b & c | ~b & d, 0x5A82_7999)
                    case 1: (b ^ c ^ d, 0x6ED9_EBA1)
                    case 2: (b & c | b & d | c & d, 0x8F1B_BCDC)
                    default: (b ^ c ^ d, 0xCA62_C1D6)
                    }
                (a, b, c, d, e) = (turned(a, 5) &+ mixed &+ e &+ constant &+ word, a, turned(b, 30), c, d)
            }
            hash = zip(hash, [a, b, c, d, e]).map { $0 &+ $1 }
        }
        return hash.flatMap { withUnsafeBytes(of: $0.bigEndian, Array.init) }
    }
}
