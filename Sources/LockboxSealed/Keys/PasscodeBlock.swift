import LockboxCore
import LockboxSodium

/// The keybag's passcode parameters: Argon2id cost, salt and check value. 64 bytes.
struct PasscodeBlock: Sendable, Equatable {
    static let length = 64

    let operations: UInt32
    let memory: UInt64
    private let salt: SIMD16<UInt8>
    private let check: SIMD32<UInt8>

    /// The stored number of Argon2id 1.3. Not left to libsodium's default, which has changed before.
    private static let argon2id13: UInt8 = 1
    private static let operationsLimits = Argon2id.interactive.operations...10
    private static let memoryLimits = Argon2id.interactive.memory...(1 << 30)

    /// Creates a block with a random salt, and the passcode's key.
    static func make(
        _ passcode: UnsafeRawBufferPointer,
        strength: PasscodeStrength
    ) throws -> (block: PasscodeBlock, key: SecretKey) {
        var salt = SIMD16<UInt8>()
        withUnsafeMutableBytes(of: &salt) { Sodium.fillRandom($0) }
        let (operations, memory) = strength.parameters
        let (key, check) = try derive(passcode, salt: salt, operations: operations, memory: memory)
        return (PasscodeBlock(operations: operations, memory: memory, salt: salt, check: check), key)
    }

    /// Returns the passcode's key, or throws if the passcode is wrong.
    func key(_ passcode: UnsafeRawBufferPointer) throws -> SecretKey {
        let (key, check) = try Self.derive(passcode, salt: salt, operations: operations, memory: memory)
        let isRight = withUnsafeBytes(of: check) { a in
            withUnsafeBytes(of: self.check) { b in Sodium.isEqual(a, b) }
        }
        guard isRight else { throw LockboxError.wrongPasscode }
        return key
    }

    /// Runs Argon2id once for 64 bytes: the first half is the key, the second half the check value.
    private static func derive(
        _ passcode: UnsafeRawBufferPointer,
        salt: SIMD16<UInt8>,
        operations: UInt32,
        memory: UInt64
    ) throws -> (SecretKey, SIMD32<UInt8>) {
        let output = try SecretKey(count: 64) { output in
            try Argon2id.derive(passcode, salt: salt, operations: operations, memory: memory, into: output)
        }
        let key = try SecretKey { key in
            output.withBytes { key.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<32])) }
        }
        let check = output.withBytes { $0.loadUnaligned(fromByteOffset: 32, as: SIMD32<UInt8>.self) }
        return (key, check)
    }

    // MARK: The record

    func write(to writer: inout ByteWriter) {
        writer.write(Self.argon2id13)
        writer.skip(3)
        writer.write(operations)
        writer.write(memory)
        withUnsafeBytes(of: salt) { writer.write($0) }
        withUnsafeBytes(of: check) { writer.write($0) }
    }

    /// Returns nil if there is no passcode. Checks the parameters before a run of Argon2id uses them.
    static func read(_ reader: inout ByteReader) throws(RecordError) -> PasscodeBlock? {
        guard let bytes = reader.readBytes(length) else { throw .malformed("it is cut short") }
        var reader = ByteReader(bytes)
        if Sodium.isZero(bytes) { return nil }
        guard reader.read(UInt8.self) == argon2id13, reader.skipZeros(3),
            let operations = reader.read(UInt32.self), let memory = reader.read(UInt64.self),
            let salt = reader.readBytes(16)?.loadUnaligned(as: SIMD16<UInt8>.self),
            let check = reader.readBytes(32)?.loadUnaligned(as: SIMD32<UInt8>.self)
        else { throw .malformed("its passcode uses an unknown algorithm") }
        guard operationsLimits.contains(operations) else {
            throw .malformed(
                "its passcode needs \(operations) passes; the limits are \(operationsLimits)"
            )
        }
        guard memoryLimits.contains(memory) else {
            throw .malformed(
                "its passcode needs \(memory) bytes of memory; the limits are \(memoryLimits)"
            )
        }
        return PasscodeBlock(operations: operations, memory: memory, salt: salt, check: check)
    }
}

extension PasscodeStrength {
    fileprivate var parameters: (operations: UInt32, memory: UInt64) {
        switch self {
        case .interactive: Argon2id.interactive
        case .moderate: Argon2id.moderate
        case .sensitive: Argon2id.sensitive
        }
    }
}
