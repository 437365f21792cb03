import LockboxCore
import LockboxSodium

/// Unlocks with a ``RecoveryCode``.
public struct RecoveryCodeUnlock: UnlockMethod {
    /// ``SlotKind/recoveryCode``.
    public var kind: SlotKind { .recoveryCode }

    private let source: PasscodeSource
    /// What was typed. A store may have several codes, and a person is asked once.
    private let code: Protected<RecoveryCode?>

    /// Creates the method.
    ///
    /// - Parameter code: The source of the code, as somebody types it.
    public init(_ code: PasscodeSource) {
        source = code
        self.code = Protected(nil)
    }

    /// Needs no source.
    init(known code: RecoveryCode) {
        source = .bytes { [] }
        self.code = Protected(code)
    }

    /// Reads the code, and derives the secret. There are no parameters.
    public func enroll(salt: [UInt8]) throws -> SlotEnrollment {
        SlotEnrollment(parameters: [], secret: try deriveSecret([], salt: salt))
    }

    /// Reads the code, and derives the secret. A code has 130 random bits, so Argon2id is not needed.
    public func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
        guard parameters.isEmpty else {
            throw LockboxError.corrupt(
                record: "the slot of the recovery code",
                reason: "it has unknown parameters"
            )
        }
        let key = try typedCode().key()
        var secret = [UInt8](repeating: 0, count: SecretKey.length)
        salt.withUnsafeBytes { salt in
            secret.withUnsafeMutableBytes { Sodium.hash(salt, key: key, personal: .recovery, into: $0) }
        }
        return secret
    }
}

extension RecoveryCodeUnlock {
    private func typedCode() throws -> RecoveryCode {
        if let code = code.withLock({ $0 }) { return code }
        let typed = try source.withBytes { try RecoveryCode(typed: $0) }
        code.withLock { $0 = typed }
        return typed
    }
}

extension UnlockMethod where Self == RecoveryCodeUnlock {
    /// Unlocks with a recovery code.
    ///
    /// - Parameter code: The source of the code, as somebody types it.
    public static func recoveryCode(_ code: PasscodeSource) -> Self { RecoveryCodeUnlock(code) }
}
