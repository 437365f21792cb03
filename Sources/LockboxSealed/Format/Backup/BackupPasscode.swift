import LockboxCore
import LockboxSodium

/// A backup's passphrase: Argon2id's cost, the salt, and a value that tells a wrong passphrase from damage. 64 bytes.
struct BackupPasscode: Sendable, Equatable {
    static let length = PasscodeCost.length + 16 + 32

    let cost: PasscodeCost
    private let salt: SIMD16<UInt8>
    private let check: SIMD32<UInt8>

    /// Creates a block with a random salt, and the passphrase's key.
    static func make(
        _ passphrase: UnsafeRawBufferPointer,
        strength: PasscodeStrength
    ) throws -> (block: BackupPasscode, key: SecretKey) {
        var salt = SIMD16<UInt8>()
        withUnsafeMutableBytes(of: &salt) { Sodium.fillRandom($0) }
        let cost = PasscodeCost(strength)
        let (key, check) = try derive(passphrase, cost, salt)
        return (BackupPasscode(cost: cost, salt: salt, check: check), key)
    }

    /// Returns the passphrase's key, or throws if the passphrase is wrong.
    func key(_ passphrase: UnsafeRawBufferPointer) throws -> SecretKey {
        let (key, check) = try Self.derive(passphrase, cost, salt)
        let isRight = withUnsafeBytes(of: check) { a in
            withUnsafeBytes(of: self.check) { b in Sodium.isEqual(a, b) }
        }
        guard isRight else { throw LockboxError.wrongPasscode }
        return key
    }

    /// Runs Argon2id once for 64 bytes: the first half is the key, the second half the check value.
    private static func derive(
        _ passphrase: UnsafeRawBufferPointer,
        _ cost: PasscodeCost,
        _ salt: SIMD16<UInt8>
    ) throws -> (SecretKey, SIMD32<UInt8>) {
        let output = try SecretKey(count: 64) { try cost.derive(passphrase, salt: salt, into: $0) }
        let key = try SecretKey { key in
            output.withBytes { key.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<32])) }
        }
        let check = output.withBytes { $0.loadUnaligned(fromByteOffset: 32, as: SIMD32<UInt8>.self) }
        return (key, check)
    }

    // MARK: The record

    func write(to writer: inout ByteWriter) {
        cost.write(to: &writer)
        withUnsafeBytes(of: salt) { writer.write($0) }
        withUnsafeBytes(of: check) { writer.write($0) }
    }

    init(_ reader: inout ByteReader) throws(RecordError) {
        let cost = try PasscodeCost(&reader)
        guard let salt = reader.readBytes(16)?.loadUnaligned(as: SIMD16<UInt8>.self),
            let check = reader.readBytes(32)?.loadUnaligned(as: SIMD32<UInt8>.self)
        else { throw .malformed("it is cut short") }
        self.init(cost: cost, salt: salt, check: check)
    }

    private init(cost: PasscodeCost, salt: SIMD16<UInt8>, check: SIMD32<UInt8>) {
        self.cost = cost
        self.salt = salt
        self.check = check
    }
}
