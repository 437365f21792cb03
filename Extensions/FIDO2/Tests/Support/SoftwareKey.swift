#if FIDO2
    import CFIDO2
    import Foundation
    @_spi(Extensions) import LockboxStore

    @testable import LockboxFIDO2

    /// A FIDO2 security key in this process. libfido2 talks to it as to a device: in reports of 64 bytes.
    final class SoftwareKey: @unchecked Sendable {  // each test uses its own, from one thread
        // MARK: Settings of a test

        var extensions = ["hmac-secret"]
        var pin: String?
        /// Whether it has something like a fingerprint reader, which always says yes.
        var hasUserVerification = false
        /// An error that every request for a touch gets.
        var touch: UInt8?
        /// Whether it stops answering once it is open.
        var isSilent = false

        // MARK: Its state

        private(set) var retries = 8
        private(set) var touches = 0
        /// The bytes it has received and sent. Parts are encrypted.
        private(set) var recording: [UInt8] = []
        private var wrongInARow = 0
        private var secrets: [[UInt8]: (verified: [UInt8], unverified: [UInt8])] = [:]
        private let agreement = Cryptography.KeyPair()
        private let token = Sodium.randomBytes(32)

        /// Has forgotten every credential, as after a reset.
        func reset() { secrets = [:] }

        func plugIn() { wrongInARow = 0 }

        // MARK: The device

        private var answers: [[UInt8]] = []
        private var request: (command: UInt8, length: Int, bytes: [UInt8]) = (0, 0, [])

        /// Where the library finds this key.
        var securityKey: SecurityKey {
            let number = Unmanaged.passUnretained(self).toOpaque()
            return SecurityKey(path: "software:\(Int(bitPattern: number))") { device in
                var functions = fido_dev_io_t()
                functions.open = { path in
                    let number = path.flatMap { Int(String(cString: $0).dropFirst("software:".count)) }
                    return UnsafeMutableRawPointer(bitPattern: number ?? 0)
                }
                functions.close = { _ in }
                functions.read = { key, buffer, length, _ in
                    guard let report = SoftwareKey.at(key).read() else { return -1 }
                    UnsafeMutableRawBufferPointer(start: buffer, count: length).copyBytes(from: report)
                    return CInt(report.count)
                }
                functions.write = { key, buffer, length in
                    SoftwareKey.at(key).write(
                        Array(UnsafeBufferPointer(start: buffer, count: length).dropFirst())
                    )
                    return CInt(length)
                }
                fido_dev_set_io_functions(device, &functions)
            }
        }

        private static func at(_ pointer: UnsafeMutableRawPointer?) -> SoftwareKey {
            Unmanaged<SoftwareKey>.fromOpaque(pointer!).takeUnretainedValue()
        }

        private func read() -> [UInt8]? { answers.isEmpty ? nil : answers.removeFirst() }

        private func write(_ report: [UInt8]) {
            recording += report
            let channel = Array(report[..<4])
            if report[4] & 0x80 != 0 {
                request = (report[4], Int(report[5]) << 8 | Int(report[6]), Array(report[7...]))
            } else {
                request.bytes += report[5...]
            }
            guard request.bytes.count >= request.length else { return }
            let bytes = Array(request.bytes.prefix(request.length))
            switch request.command {
            // The number of a channel; CBOR, and no U2F.
            case 0x86: answer(channel, 0x86, bytes + [0, 0, 0, 1, 2, 1, 0, 0, 0x0c])
            case 0x90 where isSilent && bytes != [4]: break
            case 0x90: answer(channel, 0x90, perform(bytes))
            default: break
            }
        }

        private func answer(_ channel: [UInt8], _ command: UInt8, _ bytes: [UInt8]) {
            var rest = bytes[...]
            var header = channel + [command, UInt8(bytes.count >> 8), UInt8(bytes.count & 0xff)]
            var sequence: UInt8 = 0
            repeat {
                let part = rest.prefix(64 - header.count)
                rest = rest.dropFirst(part.count)
                let report = header + part
                answers.append(report + [UInt8](repeating: 0, count: 64 - report.count))
                recording += report
                header = channel + [sequence]
                sequence += 1
            } while !rest.isEmpty
        }

        // MARK: CTAP

        private struct Failure: Error { let code: UInt8 }

        private func perform(_ bytes: [UInt8]) -> [UInt8] {
            var rest = bytes.dropFirst()
            let parameters = CBOR(&rest) ?? .empty
            do {
                switch bytes.first {
                case 0x01: return [0] + (try makeCredential(parameters)).encoded
                case 0x02: return [0] + (try getAssertion(parameters)).encoded
                case 0x04: return [0] + information().encoded
                case 0x06: return [0] + (try clientPIN(parameters)).encoded
                default: throw Failure(code: 0x01)
                }
            } catch {
                return [(error as? Failure)?.code ?? 0x7f]
            }
        }

        private func information() -> CBOR {
            var options: [(CBOR, CBOR)] = [(.text("rk"), .bool(true)), (.text("up"), .bool(true))]
            if hasUserVerification { options.append((.text("uv"), .bool(true))) }
            options.append((.text("clientPin"), .bool(pin != nil)))
            return .map([
                (.integer(1), .array([.text("FIDO_2_0")])), (.integer(2), .array(extensions.map(CBOR.text))),
                (.integer(3), .bytes([UInt8](repeating: 0, count: 16))), (.integer(4), .map(options)),
                (.integer(5), .integer(1200)), (.integer(6), .array([.integer(1)])),
            ])
        }

        private func waitForTouch() throws {
            if let touch { throw Failure(code: touch) }
            touches += 1
        }

        private func makeCredential(_ request: CBOR) throws -> CBOR {
            let verified = try isVerified(challenge: request[1], proof: request[8], options: request[7])
            if pin != nil, !verified { throw Failure(code: 0x36) }
            try waitForTouch()
            let id = Sodium.randomBytes(64)
            secrets[id] = (Sodium.randomBytes(32), Sodium.randomBytes(32))
            let party = Array((request[2]?["id"]?.string ?? "").utf8)
            let flags: UInt8 = verified ? 0xc5 : 0xc1
            var data = Cryptography.sha256(party) + [flags, 0, 0, 0, 1]
            data += [UInt8](repeating: 0, count: 16) + [0, UInt8(id.count)] + id
            data += Cryptography.KeyPair().cose(algorithm: -7).encoded
            data += CBOR.map([(.text("hmac-secret"), .bool(true))]).encoded
            return .map([(.integer(1), .text("none")), (.integer(2), .bytes(data)), (.integer(3), .empty)])
        }

        private func getAssertion(_ request: CBOR) throws -> CBOR {
            let verified = try isVerified(challenge: request[2], proof: request[6], options: request[5])
            guard let id = request[3]?.elements.first?["id"]?.data, let secret = secrets[id] else {
                throw Failure(code: 0x2e)
            }
            guard let input = request[4]?["hmac-secret"], let peer = input[1],
                let shared = agreement.shared(with: peer),
                let salt = input[2]?.data, Array(Cryptography.hmac(shared, salt)[..<16]) == input[3]?.data
            else { throw Failure(code: 0x33) }
            try waitForTouch()
            let clear = Cryptography.aes(shared, salt, encrypts: false)
            let output = Cryptography.hmac(verified ? secret.verified : secret.unverified, clear)
            let party = Array((request[1]?.string ?? "").utf8)
            let flags: UInt8 = verified ? 0x85 : 0x81
            let data =
                Cryptography.sha256(party) + [flags, 0, 0, 0, 2]
                + CBOR.map([(.text("hmac-secret"), .bytes(Cryptography.aes(shared, output, encrypts: true)))])
                .encoded
            return .map([
                (.integer(1), .map([(.text("id"), .bytes(id)), (.text("type"), .text("public-key"))])),
                (.integer(2), .bytes(data)), (.integer(3), .bytes([UInt8](repeating: 7, count: 70))),
            ])
        }

        private func isVerified(challenge: CBOR?, proof: CBOR?, options: CBOR?) throws -> Bool {
            if let proof = proof?.data {
                guard Array(Cryptography.hmac(token, challenge?.data ?? [])[..<16]) == proof else {
                    throw Failure(code: 0x33)
                }
                return true
            }
            guard options?["uv"] == .bool(true) else { return false }
            if !hasUserVerification { throw Failure(code: 0x2b) }
            return true
        }

        private func clientPIN(_ request: CBOR) throws -> CBOR {
            switch request[2]?.number {
            case 1: return .map([(.integer(3), .integer(retries))])
            case 2: return .map([(.integer(1), agreement.cose(algorithm: -25))])
            case 5:
                guard let pin else { throw Failure(code: 0x35) }
                if retries == 0 { throw Failure(code: 0x32) }
                if wrongInARow == 3 { throw Failure(code: 0x34) }
                guard let peer = request[3], let shared = agreement.shared(with: peer),
                    let hash = request[6]?.data
                else { throw Failure(code: 0x14) }
                let given = Cryptography.aes(shared, hash, encrypts: false)
                guard given == Array(Cryptography.sha256(Array(pin.utf8))[..<16]) else {
                    retries -= 1
                    wrongInARow += 1
                    throw Failure(code: retries == 0 ? 0x32 : wrongInARow == 3 ? 0x34 : 0x31)
                }
                (retries, wrongInARow) = (8, 0)
                return .map([(.integer(2), .bytes(Cryptography.aes(shared, token, encrypts: true)))])
            default: throw Failure(code: 0x01)
            }
        }
    }
#endif
