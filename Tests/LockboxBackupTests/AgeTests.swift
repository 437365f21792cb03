import Foundation
import Testing

@testable import LockboxAge
@_spi(Extensions) @testable import LockboxCore
import LockboxPlatform
@testable import LockboxStore

/// The format of age, version 1.
@Suite struct AgeTests {
    private func encrypt(_ bytes: [UInt8], to recipients: [AgeRecipient]) throws -> [UInt8] {
        var age = try AgeEncryptor(to: recipients)
        var output = age.header
        for start in stride(from: 0, to: bytes.count, by: 10_007) {
            output += age.encrypt(Array(bytes[start..<min(start + 10_007, bytes.count)]))
        }
        return output + age.finish()
    }

    /// - Parameter step: So many bytes come at once.
    private func decrypt(_ file: [UInt8], _ identities: [AgeIdentity], step: Int = 977) throws -> [UInt8] {
        var rest = file[...]
        var age = try AgeDecryptor(identities) { buffer in
            let next = rest.prefix(min(step, buffer.count))
            buffer.copyBytes(from: next)
            rest = rest.dropFirst(next.count)
            return next.count
        }
        var output: [UInt8] = []
        while let chunk = try age.next() { output += chunk }
        return output
    }

    private let passphrase = WipedBytes("correct horse".utf8)

    @Test(arguments: [0, 1, 65_535, 65_536, 65_537, 131_072, 300_000]) func whatIsEncryptedIsDecrypted(
        _ count: Int
    ) throws {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let (a, b, c) = (AgePrivateKey(), AgePrivateKey(), AgePrivateKey())
        let file = try encrypt(bytes, to: [.x25519(a.publicKey), .x25519(b.publicKey)])
        #expect(try decrypt(file, [.x25519(a)]) == bytes)
        #expect(try decrypt(file, [.x25519(c), .x25519(b)], step: 1 << 20) == bytes)
        #expect(throws: AgeError.noMatch(types: ["X25519", "X25519"])) { try decrypt(file, [.x25519(c)]) }
        let guarded = try encrypt(bytes, to: [.passphrase(passphrase, workFactor: 4)])
        #expect(try decrypt(guarded, [.passphrase(passphrase)]) == bytes)
        #expect(throws: AgeError.noMatch(types: ["scrypt"])) {
            try decrypt(guarded, [.passphrase(WipedBytes([1]))])
        }
        #expect(throws: AgeError.workFactor(4, maximum: 3)) {
            try decrypt(guarded, [.passphrase(passphrase, maximumWorkFactor: 3)])
        }
        #expect(try encrypt(bytes, to: [.x25519(a.publicKey)]) != encrypt(bytes, to: [.x25519(a.publicKey)]))
    }

    @Test func everyChangedBitAndEveryCutIsRefused() throws {
        let key = AgePrivateKey()
        let file = try encrypt(Array("secret".utf8), to: [.x25519(key.publicKey)])
        for index in file.indices {
            for bit in 0..<8 {
                var changed = file
                changed[index] ^= 1 << bit
                #expect(throws: AgeError.self, "bit \(bit) of byte \(index)") {
                    try decrypt(changed, [.x25519(key)])
                }
            }
            #expect(throws: AgeError.self, "length \(index)") {
                try decrypt(Array(file[..<index]), [.x25519(key)])
            }
        }
        #expect(throws: AgeError.self) { try decrypt(file + [0], [.x25519(key)]) }
    }

    /// Otherwise one file could have several headers.
    @Test func base64IsWrittenInOneWay() {
        #expect(Base64.decode("AAA") == [0, 0] && Base64.decode("") == [])
        for text in ["AAB", "AA=", "AA==", "A", "AA A", "AAA\n"] {
            #expect(Base64.decode(text) == nil, "\(text)")
        }
    }

    /// Each chunk is authentic, but in another place.
    @Test func chunksKeepTheirOrder() throws {
        let key = AgePrivateKey()
        let file = try encrypt([UInt8](repeating: 7, count: 3 << 16), to: [.x25519(key.publicKey)])
        let length = Age.chunkLength + 16
        let header = file.count - 3 * length
        func chunks(_ order: Int...) -> [UInt8] {
            var chosen = Array(file[..<header])
            for number in order { chosen += file[(header + number * length)...].prefix(length) }
            return chosen
        }
        #expect(chunks(0, 1, 2) == file)
        for wrong in [
            chunks(1, 0, 2), chunks(0, 1), chunks(0, 2), chunks(0, 1, 2, 2), chunks(0, 0, 2), chunks(2),
        ] {
            #expect(throws: AgeError.payload) { try decrypt(wrong, [.x25519(key)]) }
        }
    }

    @Test func keysAreText() throws {
        let key = AgePrivateKey()
        #expect(try AgePrivateKey(key.text).publicKey == key.publicKey)
        #expect(try AgePublicKey(key.publicKey.text) == key.publicKey)
        #expect(key.text.hasPrefix("AGE-SECRET-KEY-1") && key.publicKey.text.hasPrefix("age1"))
        // From age's own documentation.
        let text = "AGE-SECRET-KEY-1EGTZVFFV20835NWYV6270LXYVK2VKNX2MMDKWYKLMGR48UAWX40Q2P2LM0"
        #expect(try AgePrivateKey(text).text == text)
        for wrong in [
            "", "age1", key.publicKey.text.uppercased(), key.text.lowercased(),
            String(key.publicKey.text.dropLast()),
            key.publicKey.text + "q", "age1é", String(repeating: "1", count: 70),
        ] {
            #expect(throws: AgeError.self, "\(wrong)") { try AgePublicKey(wrong) }
            #expect(throws: AgeError.self, "\(wrong)") { try AgePrivateKey(wrong) }
        }
    }

    /// Each costs a multiplication on the curve, for each private key.
    @Test func aFileHasAtMostSoManyRecipients() throws {
        let key = AgePrivateKey()
        let limit = 1024
        func recipients(_ count: Int) -> [AgeRecipient] {
            [AgeRecipient](repeating: .x25519(AgePrivateKey().publicKey), count: count - 1)
                + [.x25519(key.publicKey)]
        }
        #expect(try decrypt(encrypt([7], to: recipients(limit)), [.x25519(key)]) == [7])
        #expect(throws: AgeError.header("it has more than \(limit) recipients")) {
            try decrypt(encrypt([7], to: recipients(limit + 1)), [.x25519(key)])
        }
    }

    /// Nobody else can tell what a longer header costs.
    @Test func headersHaveLimits() {
        let intro = "age-encryption.org/v1\n"
        for header in [
            intro + "-> " + String(repeating: "a", count: 2 << 20) + "\n",
            intro + "-> a\n" + String(repeating: String(repeating: "A", count: 64) + "\n", count: 20_000),
            intro + String(repeating: "-> \(String(repeating: "a", count: 1 << 19))\n\n", count: 34),
            intro + "--- \n", intro,
            "age-encryption.org/v2\n",
        ] {
            #expect(throws: AgeError.self) {
                try decrypt(Array(header.utf8), [.passphrase(WipedBytes([1]))], step: 1 << 16)
            }
        }
    }

    /// The developers of age check other implementations with these.
    @Test(.enabled(if: TestData.ageKit.isPresent, "\(TestData.ageKit.absence)")) func theTestKitPasses()
        throws
    {
        let folder = TestData.ageKit.path
        var count = 0
        for name in try FileManager.default.contentsOfDirectory(atPath: folder).sorted() {
            let vector = try AgeVector(Array(readBytes("\(folder)/\(name)")))
            // Neither is ours: armor, and recipients that are safe from quantum computers.
            if vector.isArmored || name.hasPrefix("hybrid") { continue }
            count += 1
            let result: String
            do {
                let output = try decrypt(vector.file, vector.identities)
                result = vector.hash(output) == vector.payload ? "success" : "another payload"
            } catch AgeError.noMatch {
                result = "no match"
            } catch AgeError.headerNotAuthentic {
                result = "HMAC failure"
            } catch AgeError.payload {
                result = "payload failure"
            } catch is AgeError {
                result = "header failure"
            }
            #expect(result == vector.expected, "\(name)")
        }
        #expect(count > 80)
    }

    /// With such a key the shared secret would be zero, and anybody could open the file.
    @Test(arguments: [0, 1]) func pointsOfLowOrderAreNoKeys(_ first: UInt8) {
        let bytes = [first] + [UInt8](repeating: 0, count: 31)
        #expect(throws: AgeError.self) { try AgePublicKey(Bech32.encode("age", bytes)) }
    }
}

/// A file of age's test kit: what is expected, then the file of age.
private struct AgeVector {
    private(set) var expected = ""
    private(set) var payload = ""
    private(set) var identities: [AgeIdentity] = []
    private(set) var isArmored = false
    private(set) var file: [UInt8] = []

    init(_ bytes: [UInt8]) throws {
        var (start, isCompressed) = (0, false)
        while let end = bytes[start...].firstIndex(of: 10) {
            let line = String(decoding: bytes[start..<end], as: UTF8.self)
            start = end + 1
            if line.isEmpty { break }
            let parts = line.split(separator: ": ", maxSplits: 1).map(String.init)
            switch parts[0] {
            case "expect": expected = parts[1]
            case "payload": payload = parts[1]
            // Some are not for this version of the format.
            case "identity": if let key = try? AgePrivateKey(parts[1]) { identities.append(.x25519(key)) }
            case "passphrase": identities.append(.passphrase(WipedBytes(parts[1].utf8)))
            case "armored": isArmored = true
            case "compressed": isCompressed = true
            default: break
            }
        }
        file = Array(bytes[start...])
        if isCompressed { file = try Self.decompressed(file) }
    }

    func hash(_ bytes: [UInt8]) -> String {
        var hash = SHA256()
        hash.add(bytes)
        return hash.finished().hexadecimal
    }

    private static func decompressed(_ input: [UInt8]) throws -> [UInt8] {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "age-\(UInt64.random(in: .min ... .max))"
        )
        try Data(input).write(to: folder)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "python3", "-c",
            "import sys, zlib; sys.stdout.buffer.write(zlib.decompress(open(sys.argv[1], 'rb').read()))",
            folder.path(),
        ]
        process.standardOutput = output
        try process.run()
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Array(bytes)
    }
}
