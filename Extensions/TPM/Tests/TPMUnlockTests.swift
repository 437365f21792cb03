#if TPM
    import CTSS2
    import Foundation
    import LockboxCore
    @_spi(Extensions) import LockboxStore
    import Testing

    @testable import LockboxTPM

    private let unseal: UInt32 = 0x15e

    extension TPMTests {
        struct TPMUnlockTests {
            private let salt = (0..<32).map { UInt8($0 + 1) }
            private let tpm: SoftwareTPM

            init() throws { tpm = try SoftwareTPM() }

            private func method(_ pin: String?, _ tcti: String? = nil) -> TPMUnlock {
                TPMUnlock(pin: pin.map { .value($0) }, tcti: tcti ?? tpm.tcti)
            }

            private func expectOtherTPM(_ body: () throws -> Void) {
                do {
                    try body()
                    Issue.record("no error")
                } catch LockboxError.notReachable(_, let reason) {
                    #expect(reason == "the TPM was cleared, or this is another TPM; use the recovery code")
                } catch {
                    Issue.record(error)
                }
            }

            private func expectLockedOut(_ body: () throws -> Void) {
                do {
                    try body()
                    Issue.record("no error")
                } catch LockboxError.accessDenied(_, let reason) {
                    #expect(reason.contains("after too many wrong ones (3)"))
                    #expect(reason.contains("recovery code"))
                } catch {
                    Issue.record(error)
                }
            }

            // MARK: Seal and unseal

            @Test func aSlotWithPINGivesItsSecretBack() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                #expect(enrollment.secret.count == 32)
                #expect(enrollment.parameters.count < 300)
                for _ in 0..<2 {
                    #expect(
                        try method("1234").deriveSecret(enrollment.parameters, salt: salt)
                            == enrollment.secret
                    )
                }
                #expect(try method("1234").enroll(salt: salt).secret != enrollment.secret)
                #expect(method("1234").kind == .tpm)
            }

            @Test func aSlotWithoutPINGivesItsSecretBack() throws {
                let enrollment = try method(nil).enroll(salt: salt)
                #expect(try method(nil).deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
                #expect(
                    try method("ignored").deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret
                )
            }

            @Test func aSlotOutlivesARestart() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                tpm.kill()
                try tpm.start()
                #expect(
                    try method("1234").deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret
                )
            }

            @Test func aSlotOutlivesAStorageRootKeyThatIsKeptLaterOn() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                try tpm.keepStorageRootKey()
                #expect(
                    try method("1234").deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret
                )
                let other = try method("1234").enroll(salt: salt)
                #expect(try method("1234").deriveSecret(other.parameters, salt: salt) == other.secret)
            }

            @Test func twoThreadsAtOnce() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                DispatchQueue.concurrentPerform(iterations: 8) { [tcti = tpm.tcti, salt] _ in
                    let method = TPMUnlock(pin: .value("1234"), tcti: tcti)
                    #expect(
                        (try? method.deriveSecret(enrollment.parameters, salt: salt)) == enrollment.secret
                    )
                }
            }

            @Test func nothingIsLeftInTheTPM() throws {
                let enrollment = try method(nil).enroll(salt: salt)
                for _ in 0..<20 { _ = try method(nil).deriveSecret(enrollment.parameters, salt: salt) }
                let withPIN = try method("1234").enroll(salt: salt)
                _ = try? method("wrong").deriveSecret(withPIN.parameters, salt: salt)
                #expect(try tpm.loaded() == [])
            }

            // MARK: Wrong PINs

            @Test func theTPMCountsAWrongPIN() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                let before = try #require(try tpm.failedAttempts())
                #expect(throws: LockboxError.wrongPasscode) {
                    try method("1235").deriveSecret(enrollment.parameters, salt: salt)
                }
                #expect(try tpm.failedAttempts() == before + 1)
                #expect(
                    try method("1234").deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret
                )
            }

            @Test func aLockedTPMSaysSoAlsoForTheRightPIN() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                for _ in 0..<(try #require(try tpm.mostAttempts())) {
                    #expect(throws: LockboxError.wrongPasscode) {
                        try method("1235").deriveSecret(enrollment.parameters, salt: salt)
                    }
                }
                for pin in ["1235", "1234"] {
                    expectLockedOut { _ = try method(pin).deriveSecret(enrollment.parameters, salt: salt) }
                }
                // A slot without a PIN does not take part.
                let open = try method(nil).enroll(salt: salt)
                #expect(try method(nil).deriveSecret(open.parameters, salt: salt) == open.secret)
                try method(nil).resetLockout()
                #expect(try tpm.failedAttempts() == 0)
                #expect(
                    try method("1234").deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret
                )
            }

            @Test func aSetLockoutAuthorizationIsNotTried() throws {
                try tpm.setPassword(of: .lockout)
                for _ in 0..<2 {
                    expectError(.accessDenied, saying: "tpm2_dictionarylockout") {
                        try method(nil).resetLockout()
                    }
                }
            }

            @Test func aSlotWithPINNeedsOne() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                expectError(.invalidPasscode) {
                    try method(nil).deriveSecret(enrollment.parameters, salt: salt)
                }
                #expect(try tpm.failedAttempts() == 0)
            }

            @Test func anotherSaltIsAnotherPIN() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                #expect(throws: LockboxError.wrongPasscode) {
                    try method("1234").deriveSecret(enrollment.parameters, salt: salt.reversed())
                }
                expectError(.corrupt) { try method("1234").deriveSecret(enrollment.parameters, salt: [1]) }
            }

            // MARK: No TPM, another, or a changed one

            @Test func aClearedTPMSaysWhatToDo() throws {
                let enrollment = try method("1234").enroll(salt: salt)
                try tpm.clear()
                expectOtherTPM { _ = try method("1234").deriveSecret(enrollment.parameters, salt: salt) }
            }

            @Test func anotherTPMSaysWhatToDo() throws {
                let enrollment = try method(nil).enroll(salt: salt)
                let other = try SoftwareTPM()
                expectOtherTPM {
                    _ = try method(nil, other.tcti).deriveSecret(enrollment.parameters, salt: salt)
                }
            }

            @Test func anOwnerWithPassword() throws {
                try tpm.keepStorageRootKey()
                let enrollment = try method("1234").enroll(salt: salt)
                try tpm.setPassword(of: .owner)
                #expect(
                    try method("1234").deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret
                )
                let other = try SoftwareTPM()
                try other.setPassword(of: .owner)
                expectError(.accessDenied, saying: "owner hierarchy") {
                    try method("1234", other.tcti).enroll(salt: salt)
                }
            }

            @Test func noDevice() throws {
                tpm.kill()
                for tcti in ["device:/dev/no-such-tpm", tpm.tcti, "no-such-library", ""] {
                    expectError(.notReachable) { try method(nil, tcti).enroll(salt: salt) }
                }
                let notATPM = FileManager.default.temporaryDirectory.appending(path: "lockbox-tpm.\(UUID())")
                try Data().write(to: notATPM)
                defer { try? FileManager.default.removeItem(at: notATPM) }
                expectError(.notReachable) { try method(nil, "device:\(notATPM.path)").enroll(salt: salt) }
            }

            @Test func aTPMThatEndsInBetween() throws {
                let enrollment = try method(nil).enroll(salt: salt)
                let relay = try Relay(to: tpm.port) { command, answer in
                    code(of: command) == unseal ? nil : answer
                }
                defer { relay.close() }
                expectError(.notReachable) {
                    try method(nil, relay.tcti).deriveSecret(enrollment.parameters, salt: salt)
                }
            }

            // MARK: Damage

            @Test func damagedParametersAreAnError() throws {
                let enrollment = try method(nil).enroll(salt: salt)
                let parameters = enrollment.parameters
                for index in parameters.indices {
                    for bit: UInt8 in [0x01, 0x80] {
                        var damaged = parameters
                        damaged[index] ^= bit
                        #expect(throws: LockboxError.self, "byte \(index)") {
                            try method(nil).deriveSecret(damaged, salt: salt)
                        }
                    }
                    #expect(throws: LockboxError.self, "\(index) bytes") {
                        try method(nil).deriveSecret(Array(parameters[..<index]), salt: salt)
                    }
                }
                #expect(throws: LockboxError.self) {
                    try method(nil).deriveSecret(parameters + [0], salt: salt)
                }
                #expect(try tpm.loaded() == [])
            }

            @Test func damagedCostsAreAnError() throws {
                let parameters = try method("1234").enroll(salt: salt).parameters
                for index in 0..<18 {
                    for bit in [0, 3, 7] {
                        var damaged = parameters
                        damaged[index] ^= 1 << bit
                        #expect(throws: LockboxError.self, "bit \(bit) of byte \(index)") {
                            try method("1234").deriveSecret(damaged, salt: salt)
                        }
                    }
                }
            }

            @Test func aNewerVersionIsNamed() throws {
                var parameters = try method(nil).enroll(salt: salt).parameters
                parameters[0] = 2
                #expect(throws: LockboxError.unsupportedVersion(record: "the TPM slot", version: 2)) {
                    try method(nil).deriveSecret(parameters, salt: salt)
                }
            }
        }
    }
#endif
