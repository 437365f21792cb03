import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The cipher, with the vectors of Project Wycheproof.
@Suite struct WycheproofTests {
    private struct Wycheproof: Decodable {
        struct Group: Decodable { var tests: [Vector] }
        struct Vector: Decodable {
            var tcId: Int
            var key, iv, aad, msg, ct, tag, result: String
        }
        var numberOfTests: Int
        var testGroups: [Group]
    }

    @Test(.enabled(if: TestData.wycheproof.isPresent, "\(TestData.wycheproof.absence)"))
    func wycheproofVectorsOfTheCipher() throws {
        let file = try TestData.wycheproof.load(Wycheproof.self)
        let vectors = file.testGroups.flatMap(\.tests)
        #expect(vectors.count == 315 && file.numberOfTests == 315)
        var valid = 0
        for vector in vectors {
            let (key, nonce, data) = (bytes(vector.key), bytes(vector.iv), bytes(vector.aad))
            let (message, sealed) = (bytes(vector.msg), bytes(vector.ct) + bytes(vector.tag))
            #expect(
                open(sealed, data, nonce, key) == (vector.result == "valid" ? message : nil),
                "\(vector.tcId)"
            )
            if vector.result == "valid" {
                valid += 1
                #expect(seal(message, data, nonce, key) == sealed, "\(vector.tcId)")
            }
        }
        #expect(valid > 0 && valid < vectors.count)
    }

    private func open(_ sealed: [UInt8], _ data: [UInt8], _ nonce: [UInt8], _ key: [UInt8]) -> [UInt8]? {
        var output = [UInt8](repeating: 0, count: max(0, sealed.count - AEAD.tagLength))
        let opened = output.withUnsafeMutableBytes { output in
            sealed.withUnsafeBytes { sealed in
                data.withUnsafeBytes { data in
                    nonce.withUnsafeBytes { nonce in
                        key.withUnsafeBytes {
                            AEAD.open(sealed, authenticating: data, nonce: nonce, key: $0, into: output)
                        }
                    }
                }
            }
        }
        return opened ? output : nil
    }

    private func seal(_ message: [UInt8], _ data: [UInt8], _ nonce: [UInt8], _ key: [UInt8]) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: message.count + AEAD.tagLength)
        output.withUnsafeMutableBytes { output in
            message.withUnsafeBytes { message in
                data.withUnsafeBytes { data in
                    nonce.withUnsafeBytes { nonce in
                        key.withUnsafeBytes {
                            AEAD.seal(message, authenticating: data, nonce: nonce, key: $0, into: output)
                        }
                    }
                }
            }
        }
        return output
    }

    private func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0..<$0 + 2]), radix: 16)! }
    }
}
