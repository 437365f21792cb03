import LockboxCore
import LockboxSodium

/// What the keybag says of the passcode: how it becomes a key, and a check value. 64 bytes.
struct PasscodeBlock: Sendable, Equatable {
    static let length = 64

    let operations: UInt32
    let memory: UInt64
    private let salt: SIMD16<UInt8>
    private let check: SIMD32<UInt8>

    /// Argon2id 1.3. libsodium's name for its default has changed once, so it is asked for by number.
    private static let argon2id13: UInt8 = 1
    private static let operationsLimits = Argon2id.interactive.operations...10
    private static let memoryLimits = Argon2id.interactive.memory...(1 << 30)

    /// A new block, with a salt of its own, and the key.
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

    /// The key, if the passcode is right.
    func key(_ passcode: UnsafeRawBufferPointer) throws -> SecretKey {
        let (key, check) = try Self.derive(passcode, salt: salt, operations: operations, memory: memory)
        let isRight = withUnsafeBytes(of: check) { a in
            withUnsafeBytes(of: self.check) { b in Sodium.isEqual(a, b) }
        }
        guard isRight else { throw LockboxError.wrongPasscode }
        return key
    }

    /// One run of Argon2id: 64 bytes, of which the first half is the key and the second shows whether it is right.
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

    /// Nil if there is no passcode. The parameters are checked here, and so before they can cost anything.
    static func read(_ reader: inout ByteReader) throws(RecordError) -> PasscodeBlock? {
        guard let bytes = reader.readBytes(length) else { throw .malformed("it is cut short") }
        var reader = ByteReader(bytes)
        if Sodium.isZero(bytes) { return nil }
        guard reader.read(UInt8.self) == argon2id13, reader.skipZeros(3),
            let operations = reader.read(UInt32.self), let memory = reader.read(UInt64.self),
            let salt = reader.readBytes(16)?.loadUnaligned(as: SIMD16<UInt8>.self),
            let check = reader.readBytes(32)?.loadUnaligned(as: SIMD32<UInt8>.self)
        else { throw .malformed("its passcode is of an unknown kind") }
        guard operationsLimits.contains(operations) else {
            throw .malformed(
                "its passcode would take \(operations) passes, and must take \(operationsLimits)"
            )
        }
        guard memoryLimits.contains(memory) else {
            throw .malformed(
                "its passcode would take \(memory) bytes of memory, and must take \(memoryLimits)"
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
