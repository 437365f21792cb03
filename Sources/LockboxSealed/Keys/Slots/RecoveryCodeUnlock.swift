import LockboxCore
import LockboxSodium

/// Unlocks with a ``RecoveryCode``.
public struct RecoveryCodeUnlock: UnlockMethod {
    /// ``SlotKind/recoveryCode``.
    public var kind: SlotKind { .recoveryCode }

    private let code: PasscodeSource

    /// Creates the method.
    ///
    /// - Parameter code: The source of the code, as somebody types it.
    public init(_ code: PasscodeSource) { self.code = code }

    /// See ``UnlockMethod/enroll(salt:)``. Reads the code. There are no parameters.
    public func enroll(salt: [UInt8]) throws -> SlotEnrollment {
        SlotEnrollment(parameters: [], secret: try secret([], salt: salt))
    }

    /// The code has enough bits that nobody can guess it, so it needs no Argon2id.
    public func secret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
        guard parameters.isEmpty else {
            throw RecordError.malformed("its recovery code has unknown parameters")
        }
        let code = try code.withBytes { try RecoveryCode(typed: Array($0)) }
        let key = try SecretKey(count: code.bytes.count) { $0.copyBytes(from: code.bytes) }
        var secret = [UInt8](repeating: 0, count: SecretKey.length)
        salt.withUnsafeBytes { salt in
            secret.withUnsafeMutableBytes { Sodium.hash(salt, key: key, personal: .recovery, into: $0) }
        }
        return secret
    }
}

extension UnlockMethod where Self == RecoveryCodeUnlock {
    /// Unlocks with a recovery code.
    ///
    /// - Parameter code: The source of the code, as somebody types it.
    public static func recoveryCode(_ code: PasscodeSource) -> Self { RecoveryCodeUnlock(code) }
}
