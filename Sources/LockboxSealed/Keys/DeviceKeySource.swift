import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Where a store's device key comes from.
///
/// Whatever it is, a key that does not fit is ``LockboxError/deviceKeyMismatch(path:)``, and nothing is changed or
/// removed for it. It is never made from a machine's id, host name or hardware, which may change and lock the owner out.
public struct DeviceKeySource: Sendable {
    /// The shortest device key that can be given, in bytes.
    public static let minimumLength = 32

    enum Source: Sendable {
        case stored
        case given(name: String, @Sendable () throws -> [UInt8])
    }

    let source: Source

    /// 32 random bytes in the file `device-key` of the store, made with the store. Beside the data it protects no better
    /// than the permissions of the files.
    public static let stored = DeviceKeySource(source: .stored)

    /// Given by the app: at least 32 secret bytes that are hard to guess, as from a random generator; not a passcode.
    ///
    /// - Parameter bytes: The key. The caller's own copy is not wiped.
    public static func bytes(_ bytes: [UInt8]) -> DeviceKeySource {
        DeviceKeySource(source: .given(name: "given by the app") { bytes })
    }

    /// The contents, every byte of them, of a file elsewhere: on another disk, or in memory. At least 32 and at most
    /// 4,096 bytes.
    ///
    /// - Parameter path: The file, which is read whenever the keybag is. Symbolic links are followed.
    public static func file(_ path: String) -> DeviceKeySource {
        DeviceKeySource(source: .given(name: path) { try SecretReader.file(path, maximum: 4096) })
    }

    /// The file of that name in `$CREDENTIALS_DIRECTORY`, where systemd puts a service's credentials, perhaps unsealed by
    /// the machine's TPM. At least 32 and at most 4,096 bytes.
    ///
    /// - Parameter name: The credential's name in the unit.
    public static func credential(_ name: String = "lockbox-device-key") -> DeviceKeySource {
        DeviceKeySource(
            source: .given(name: "credential \(name)") {
                guard let directory = Environment["CREDENTIALS_DIRECTORY"] else {
                    throw LockboxError.invalidDeviceKey(
                        source: "credential \(name)",
                        reason: "CREDENTIALS_DIRECTORY is not set"
                    )
                }
                return try SecretReader.file("\(directory)/\(name)", maximum: 4096)
            }
        )
    }

    /// The 32 bytes of a given key: the BLAKE2b-256 of it, so that all of a longer one counts.
    static func key(_ name: String, _ read: () throws -> [UInt8]) throws -> SecretKey {
        var bytes: [UInt8]
        do { bytes = try read() } catch LockboxError.invalidPasscode(let reason) {
            throw LockboxError.invalidDeviceKey(source: name, reason: reason)
        }
        defer { Sodium.wipe(&bytes) }
        guard bytes.count >= minimumLength else {
            throw LockboxError.invalidDeviceKey(
                source: name,
                reason: "it has \(bytes.count) bytes, and must have at least \(minimumLength)"
            )
        }
        return try SecretKey { output in
            bytes.withUnsafeBytes { Sodium.hash($0, into: output) }
        }
    }
}

extension DeviceKeySource: CustomStringConvertible, CustomReflectable {
    /// Nothing of the key.
    public var description: String { "DeviceKey" }

    /// Nothing of the key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
