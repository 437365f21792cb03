import LockboxCore
import LockboxSodium

/// Unlocks with a passcode, stretched with Argon2id.
public struct PasscodeUnlock: UnlockMethod {
    /// ``SlotKind/passcode``.
    public var kind: SlotKind { .passcode }

    private static let record = "the passcode slot"

    private let passcode: PasscodeSource
    private let strength: PasscodeStrength

    /// Creates the method.
    ///
    /// - Parameters:
    ///   - passcode: The source of the passcode: 1 to 1,024 bytes.
    ///   - strength: The cost of each unlock and each guess, for a new slot.
    public init(_ passcode: PasscodeSource, strength: PasscodeStrength = .moderate) {
        self.passcode = passcode
        self.strength = strength
    }

    /// Derives the secret from the passcode, with the strength of a new slot. Runs Argon2id.
    public func enroll(salt: [UInt8]) throws -> SlotEnrollment {
        let cost = PasscodeCost(strength)
        var parameters = [UInt8](repeating: 0, count: PasscodeCost.length)
        parameters.withUnsafeMutableBytes {
            var writer = ByteWriter($0)
            cost.write(to: &writer)
        }
        return SlotEnrollment(parameters: parameters, secret: try secret(cost, salt))
    }

    /// Derives the secret from the passcode, with the strength of the slot. Runs Argon2id.
    public func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
        do { return try secret(PasscodeCost(parameters), salt) } catch let error as RecordError {
            throw error.lockboxError(Self.record)
        }
    }

    private func secret(_ cost: PasscodeCost, _ salt: [UInt8]) throws -> [UInt8] {
        guard salt.count >= MemoryLayout<SIMD16<UInt8>>.size else {
            throw LockboxError.corrupt(record: Self.record, reason: "its salt has \(salt.count) bytes")
        }
        let salt = salt.withUnsafeBytes { $0.loadUnaligned(as: SIMD16<UInt8>.self) }
        var secret = [UInt8](repeating: 0, count: SecretKey.length)
        try passcode.withBytes { passcode in
            try secret.withUnsafeMutableBytes { try cost.derive(passcode, salt: salt, into: $0) }
        }
        return secret
    }
}

extension UnlockMethod where Self == PasscodeUnlock {
    /// Unlocks with a passcode.
    ///
    /// - Parameters:
    ///   - passcode: The source of the passcode: 1 to 1,024 bytes.
    ///   - strength: The cost of each unlock and each guess, for a new slot.
    public static func passcode(_ passcode: PasscodeSource, strength: PasscodeStrength = .moderate) -> Self {
        PasscodeUnlock(passcode, strength: strength)
    }
}
