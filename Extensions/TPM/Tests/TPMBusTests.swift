#if TPM
    import CTSS2
    import Foundation
    import LockboxCore
    @_spi(Extensions) import LockboxStore
    import Testing

    @testable import LockboxTPM

    private let createPrimary: UInt32 = 0x131
    private let readPublic: UInt32 = 0x173
    private let startAuthSession: UInt32 = 0x176

    extension TPMTests {
        /// The view and the means of somebody between the processor and the TPM.
        struct TPMBusTests {
            private let salt = (0..<32).map { UInt8($0 + 1) }
            private let pin = "a PIN to look for"
            private let tpm: SoftwareTPM

            init() throws { tpm = try SoftwareTPM() }

            /// Not the standard library's `contains`: a failure would print the recording.
            private func found(_ bytes: some Collection<UInt8>, in recording: Recording) -> Bool {
                recording.bytes.range(of: Data(bytes)) != nil
            }

            private func authorization() throws -> [UInt8] {
                var authorization = [UInt8](repeating: 0, count: 32)
                try authorization.withUnsafeMutableBytes { output in
                    try Array(pin.utf8).withUnsafeBytes {
                        try Argon2id.derive(
                            $0,
                            salt: salt.withUnsafeBytes { $0.loadUnaligned(as: SIMD16<UInt8>.self) },
                            operations: Argon2id.interactive.operations,
                            memory: Argon2id.interactive.memory,
                            into: output
                        )
                    }
                }
                return authorization
            }

            @Test(arguments: [true, false]) func theBusShowsNoSecret(isKept: Bool) throws {
                if isKept { try tpm.keepStorageRootKey() }
                let relay = try Relay(to: tpm.port)
                defer { relay.close() }
                let method = TPMUnlock(pin: .value(pin), tcti: relay.tcti)
                let enrollment = try method.enroll(salt: salt)
                #expect(try method.deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
                #expect(throws: LockboxError.wrongPasscode) {
                    try TPMUnlock(pin: .value("other"), tcti: relay.tcti).deriveSecret(
                        enrollment.parameters,
                        salt: salt
                    )
                }
                let recording = relay.recording
                // The control: everything that went over the bus was recorded.
                #expect(recording.bytes.count > 2000)
                let publicArea = enrollment.parameters[54..<100]
                #expect(found(publicArea, in: recording) && relay.commands.contains(startAuthSession))
                for length in [8, 16, 32] {
                    #expect(!found(enrollment.secret.prefix(length), in: recording))
                    #expect(!found(try authorization().prefix(length), in: recording))
                }
                #expect(!found(pin.utf8, in: recording))
            }

            /// The control of the test above: without the session, the secret is on the bus.
            @Test func withoutTheSessionTheBusShowsTheSecret() throws {
                let relay = try Relay(to: tpm.port)
                defer { relay.close() }
                let secret = Sodium.randomBytes(32)
                try TPMConnection.with(relay.tcti) { tpm throws(LockboxError) in
                    try tpm.withStorageRootKey { key throws(LockboxError) in
                        _ = try TPMSession(tpm: tpm, key: key, handle: tpm.password).seal(secret, [])
                    }
                }
                #expect(found(secret, in: relay.recording))
            }

            /// The right name, with another key: tpm2-tss does not notice it.
            @Test func aKeyThatDoesNotBelongToItsNameGetsNoSession() throws {
                try tpm.keepStorageRootKey()
                let enrollment = try TPMUnlock(pin: .value(pin), tcti: tpm.tcti).enroll(salt: salt)
                let relay = try Relay(to: tpm.port) { command, answer in
                    guard code(of: command) == readPublic, answer.count > 100 else { return answer }
                    var answer = answer
                    answer[11 + Int(answer[10]) << 8 + Int(answer[11])] ^= 1
                    return answer
                }
                defer { relay.close() }
                let method = TPMUnlock(pin: .value(pin), tcti: relay.tcti)
                for call in [
                    { _ = try method.deriveSecret(enrollment.parameters, salt: salt) },
                    { _ = try method.enroll(salt: salt) },
                ] {
                    expectError(.notReachable, saying: "does not belong to the key") { try call() }
                }
                #expect(!relay.commands.contains(startAuthSession))
            }

            @Test func aMadeKeyThatDoesNotBelongToItsNameGetsNoSession() throws {
                let enrollment = try TPMUnlock(pin: .value(pin), tcti: tpm.tcti).enroll(salt: salt)
                for changed in [19 + 20, 19 + 80] {
                    let relay = try Relay(to: tpm.port) { command, answer in
                        guard code(of: command) == createPrimary, answer.count > 100 else { return answer }
                        var answer = answer
                        answer[changed] ^= 1
                        return answer
                    }
                    defer { relay.close() }
                    let method = TPMUnlock(pin: .value(pin), tcti: relay.tcti)
                    expectError(.notReachable) { try method.deriveSecret(enrollment.parameters, salt: salt) }
                    #expect(!relay.commands.contains(startAuthSession))
                }
            }

            /// Any change of an answer is an error or does not matter. It is never a wrong secret.
            @Test func changedAnswersGiveNoWrongSecret() throws {
                let enrollment = try TPMUnlock(pin: nil, tcti: tpm.tcti).enroll(salt: salt)
                for offset in stride(from: 0, to: 120, by: 3) {
                    let relay = try Relay(to: tpm.port) { command, answer in
                        guard [0x15e, startAuthSession].contains(code(of: command)), offset < answer.count,
                            !(2..<6).contains(offset)  // the length: the reader would wait for the rest
                        else { return answer }
                        var answer = answer
                        answer[offset] ^= 0x40
                        return answer
                    }
                    defer { relay.close() }
                    let secret = try? TPMUnlock(pin: nil, tcti: relay.tcti).deriveSecret(
                        enrollment.parameters,
                        salt: salt
                    )
                    #expect(secret == nil || secret == enrollment.secret, "byte \(offset)")
                    try tpm.restart()  // the failed calls have left something in it
                }
            }

            // MARK: Memory

            @Test(
                .enabled(
                    if: ProcessInfo.processInfo.environment["LOCKBOX_SANITIZER"] == nil,
                    "a sanitizer's memory takes hours to read"
                )
            )
            func noCopyOfTheSecretIsLeftInMemory() throws {
                let method = TPMUnlock(pin: .value(pin), tcti: tpm.tcti)
                let needle = MaskedBytes(32)
                var enrollment = try method.enroll(salt: salt)
                needle.store(enrollment.secret)
                // The control: there is one now.
                #expect(try needle.count() > 0)
                Sodium.wipe(&enrollment.secret)
                #expect(try needle.count() == 0)
                var secret = try method.deriveSecret(enrollment.parameters, salt: salt)
                #expect(try needle.count() > 0)
                Sodium.wipe(&secret)
                #expect(try needle.count() == 0)
            }
        }
    }

    /// Bytes to look for in the memory of this process, themselves stored in another form.
    private final class MaskedBytes {
        private var bytes: [UInt8]

        init(_ count: Int) { bytes = [UInt8](repeating: 0, count: count) }

        func store(_ secret: [UInt8]) { for index in secret.indices { bytes[index] = ~secret[index] } }

        /// Counts copies in all memory that this process can write to.
        func count() throws -> Int {
            let memory = open("/proc/self/mem", O_RDONLY)
            defer { close(memory) }
            let maps = try String(contentsOfFile: "/proc/self/maps", encoding: .utf8)
            let size = 1 << 20
            let buffer = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 16)
            defer {
                memset(buffer, 0, size)
                buffer.deallocate()
            }
            var found = 0
            for line in maps.split(separator: "\n") where line.contains(" rw") {
                let range = line.prefix { $0 != " " }.split(separator: "-").map { Int($0, radix: 16)! }
                var start = range[0]
                while start < range[1] {
                    let count = pread(memory, buffer, min(size, range[1] - start), off_t(start))
                    if count <= bytes.count { break }
                    // The buffer reads itself: what it has from elsewhere is no copy.
                    let own = Int(bitPattern: buffer)
                    found += copies(in: UnsafeRawBufferPointer(start: buffer, count: count))
                        .count { !(own..<own + size).contains(start + $0) }
                    if start + count >= range[1] { break }
                    start += count - bytes.count
                }
            }
            return found
        }

        private func copies(in memory: UnsafeRawBufferPointer) -> [Int] {
            var (found, offset) = ([Int](), 0)
            while offset < memory.count,
                let next = memchr(memory.baseAddress! + offset, CInt(~bytes[0]), memory.count - offset)
            {
                offset = next - UnsafeMutableRawPointer(mutating: memory.baseAddress!)
                if offset + bytes.count <= memory.count,
                    bytes.indices.allSatisfy({ memory[offset + $0] == ~bytes[$0] })
                {
                    found.append(offset)
                }
                offset += 1
            }
            return found
        }
    }
#endif
