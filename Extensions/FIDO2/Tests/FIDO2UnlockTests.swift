#if FIDO2
    import Foundation
    import LockboxCore
    @_spi(Extensions) import LockboxStore
    import Testing

    @testable import LockboxFIDO2

    struct FIDO2UnlockTests {
        private let salt = (0..<32).map { UInt8($0 + 1) }
        private let key = SoftwareKey()

        private func method(_ pin: String? = nil, verified: Bool = false) -> FIDO2Unlock {
            FIDO2Unlock(
                key.securityKey,
                pin: pin.map { .value($0) },
                requiresUserVerification: verified
            )
        }

        // MARK: The secret

        @Test func aSlotGivesItsSecretBack() throws {
            let enrollment = try method().enroll(salt: salt)
            #expect(enrollment.secret.count == 32)
            #expect(enrollment.parameters.count == 68)
            #expect(key.touches == 2)
            for _ in 0..<2 {
                #expect(try method().deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
            }
            #expect(key.touches == 4)
            #expect(
                try method().deriveSecret(enrollment.parameters, salt: salt.reversed()) != enrollment.secret
            )
            #expect(try method().enroll(salt: salt).secret != enrollment.secret)
            #expect(method().kind == .fido2)
        }

        @Test func theDeviceSeesNeitherSecretNorPINInClear() throws {
            key.pin = "a PIN to look for"
            let enrollment = try method(key.pin, verified: true).enroll(salt: salt)
            #expect(try method(key.pin).deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
            let recording = Data(key.recording)
            let isShown = [enrollment.secret, Array("a PIN to look for".utf8), salt].map {
                recording.range(of: Data($0)) != nil
            }
            #expect(isShown == [false, false, false])
            // The control.
            #expect(recording.range(of: Data("hmac-secret".utf8)) != nil)
        }

        // MARK: User verification

        @Test func aSlotWithPINNeedsIt() throws {
            key.pin = "1234"
            let enrollment = try method("1234", verified: true).enroll(salt: salt)
            #expect(try method("1234").deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
            expectError(.invalidPasscode, saying: "needs the PIN") {
                try method().deriveSecret(enrollment.parameters, salt: salt)
            }
        }

        @Test func aSlotWithoutVerificationOfAKeyWithPIN() throws {
            key.pin = "1234"
            expectError(.invalidPasscode, saying: "needs its PIN") { try method().enroll(salt: salt) }
            let enrollment = try method("1234").enroll(salt: salt)
            // The PIN is not even read.
            let other = FIDO2Unlock(
                key.securityKey,
                pin: .closure { throw LockboxError.userCanceled },
                requiresUserVerification: true
            )
            #expect(try other.deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
            #expect(try method().deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
        }

        @Test func verifiedOrNotIsFixedInTheSlot() throws {
            key.pin = "1234"
            let enrollment = try method("1234", verified: true).enroll(salt: salt)
            var changed = enrollment.parameters
            changed[1] = 0
            #expect(try method("1234").deriveSecret(changed, salt: salt) != enrollment.secret)
        }

        @Test func aFingerprintInsteadOfAPIN() throws {
            key.hasUserVerification = true
            let enrollment = try method(verified: true).enroll(salt: salt)
            #expect(enrollment.parameters[1] == 1)
            #expect(try method().deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
            key.hasUserVerification = false
            expectError(.invalidPasscode, saying: "needs the PIN") {
                try method().deriveSecret(enrollment.parameters, salt: salt)
            }
        }

        // MARK: Errors

        @Test func wrongPINs() throws {
            key.pin = "1234"
            let enrollment = try method("1234", verified: true).enroll(salt: salt)
            for _ in 0..<2 {
                #expect(throws: LockboxError.wrongPasscode) {
                    try method("1235").deriveSecret(enrollment.parameters, salt: salt)
                }
            }
            #expect(key.retries == 6)
            // The third, and then also the right one.
            for pin in ["1235", "1234"] {
                expectError(.accessDenied, saying: "plug it in") {
                    try method(pin).deriveSecret(enrollment.parameters, salt: salt)
                }
            }
            for _ in 0..<5 {
                key.plugIn()
                _ = try? method("1235").deriveSecret(enrollment.parameters, salt: salt)
            }
            #expect(key.retries == 0)
            expectError(.accessDenied, saying: "blocked until") {
                try method("1234").deriveSecret(enrollment.parameters, salt: salt)
            }
        }

        @Test func noPINIsSet() {
            expectError(.invalidPasscode, saying: "has no PIN") {
                try method("1234", verified: true).enroll(salt: salt)
            }
        }

        @Test func noHMACSecret() {
            key.extensions = ["credProtect"]
            expectError(.notSupported, saying: "hmac-secret") { try method().enroll(salt: salt) }
        }

        @Test func anotherKey() throws {
            let enrollment = try method().enroll(salt: salt)
            key.reset()
            expectError(.notReachable, saying: "another security key") {
                try method().deriveSecret(enrollment.parameters, salt: salt)
            }
        }

        @Test(arguments: [0x2f, 0x3a] as [UInt8]) func nobodyTouchesIt(code: UInt8) throws {
            let enrollment = try method().enroll(salt: salt)
            key.touch = code
            expectError(.notReachable, saying: "in time") {
                try method().deriveSecret(enrollment.parameters, salt: salt)
            }
            expectError(.notReachable, saying: "in time") { try method().enroll(salt: salt) }
        }

        @Test func theUserDeclines() {
            key.touch = 0x27
            #expect(throws: LockboxError.userCanceled) { try method().enroll(salt: salt) }
        }

        @Test func aKeyThatDoesNotAnswer() {
            key.isSilent = true
            expectError(.notReachable, saying: "unplugged") { try method().enroll(salt: salt) }
        }

        @Test func noDevice() {
            expectError(.notReachable, saying: "no such device") {
                try FIDO2Unlock(device: "/dev/no-such-key").enroll(salt: salt)
            }
        }

        // MARK: Parameters

        @Test func damagedParametersAreNeverTheSecret() throws {
            let enrollment = try method().enroll(salt: salt)
            let parameters = enrollment.parameters
            for index in parameters.indices {
                for bit: UInt8 in [0x01, 0x80] {
                    var damaged = parameters
                    damaged[index] ^= bit
                    #expect(throws: LockboxError.self, "byte \(index)") {
                        try method().deriveSecret(damaged, salt: salt)
                    }
                }
                #expect(throws: LockboxError.self, "\(index) bytes") {
                    try method().deriveSecret(Array(parameters[..<index]), salt: salt)
                }
            }
            #expect(throws: LockboxError.self) { try method().deriveSecret(parameters + [0], salt: salt) }
            expectError(.corrupt, saying: "salt") { try method().deriveSecret(parameters, salt: [1]) }
            expectError(.unsupportedVersion, saying: "2") {
                try method().deriveSecret([2] + parameters.dropFirst(), salt: salt)
            }
        }
    }
#endif
