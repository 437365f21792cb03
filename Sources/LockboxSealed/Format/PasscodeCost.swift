import LockboxCore
import LockboxSodium

/// Argon2id's cost, as a passcode's slot and a backup store it: the algorithm's number, three zeros, passes, memory.
/// 16 bytes.
struct PasscodeCost: Sendable, Equatable {
    static let length = 16

    let operations: UInt32
    let memory: UInt64

    /// The stored number of Argon2id 1.3. Not left to libsodium's default, which has changed before.
    private static let argon2id13: UInt8 = 1
    private static let operationsLimits = Argon2id.interactive.operations...10
    private static let memoryLimits = Argon2id.interactive.memory...(1 << 30)

    init(_ strength: PasscodeStrength) {
        (operations, memory) =
            switch strength {
            case .interactive: Argon2id.interactive
            case .moderate: Argon2id.moderate
            case .sensitive: Argon2id.sensitive
            }
    }

    /// Checks the cost before a run of Argon2id uses it.
    init(_ reader: inout ByteReader) throws(RecordError) {
        guard reader.read(UInt8.self) == Self.argon2id13, reader.skipZeros(3),
            let operations = reader.read(UInt32.self), let memory = reader.read(UInt64.self)
        else { throw .malformed("its passcode uses an unknown algorithm") }
        guard Self.operationsLimits.contains(operations) else {
            throw .malformed(
                "its passcode needs \(operations) passes; the limits are \(Self.operationsLimits)"
            )
        }
        guard Self.memoryLimits.contains(memory), memory % 1024 == 0 else {
            throw .malformed(
                "its passcode needs \(memory) bytes of memory; the limits are \(Self.memoryLimits), in whole KiB"
            )
        }
        self.operations = operations
        self.memory = memory
    }

    /// Reads a slot's parameters.
    init(_ parameters: [UInt8]) throws {
        self = try parameters.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            let cost = try PasscodeCost(&reader)
            guard reader.remaining == 0 else {
                throw RecordError.malformed("its passcode has unknown parameters")
            }
            return cost
        }
    }

    func write(to writer: inout ByteWriter) {
        writer.write(Self.argon2id13)
        writer.skip(3)
        writer.write(operations)
        writer.write(memory)
    }

    /// Runs Argon2id.
    func derive(
        _ passcode: UnsafeRawBufferPointer,
        salt: SIMD16<UInt8>,
        into output: UnsafeMutableRawBufferPointer
    ) throws {
        try Argon2id.derive(passcode, salt: salt, operations: operations, memory: memory, into: output)
    }
}
