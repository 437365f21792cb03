import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Where a passcode comes from. It is read when it is needed, and wiped after use.
///
/// No source waits for somebody to answer: what is not there at once, or within ``timeout``, is an error.
///
/// Wherever it comes from, one newline at the end (`\n` or `\r\n`) does not belong to the passcode, and text is
/// brought into Unicode normalization form C, so that it is the same passcode whatever keyboard or editor it came
/// from. A passcode has 1 to 1,024 bytes.
public struct PasscodeSource: Sendable {
    /// The longest passcode, in bytes.
    public static let maximumLength = 1024

    /// How long a pipe may take to give the passcode.
    public static let timeout: Duration = .seconds(10)

    private let source: @Sendable () throws -> [UInt8]

    init(source: @escaping @Sendable () throws -> [UInt8]) { self.source = source }

    /// The passcode itself.
    ///
    /// - Parameter passcode: 1 to 1,024 bytes of UTF-8. The caller's own string cannot be wiped.
    public static func value(_ passcode: String) -> PasscodeSource {
        PasscodeSource { Array(passcode.utf8) }
    }

    /// What a closure returns; for programs that have their own way to ask.
    ///
    /// - Parameter passcode: Is called whenever the passcode is needed. What it throws is thrown on.
    public static func closure(_ passcode: @escaping @Sendable () throws -> String) -> PasscodeSource {
        PasscodeSource { Array(try passcode().utf8) }
    }

    /// The contents of a file. Symbolic links are followed, as Kubernetes mounts secrets through them; who may read
    /// the file is up to its owner.
    ///
    /// - Parameter path: The file. Where it cannot be opened, the call that needs the passcode throws
    ///   ``LockboxError/storageFailure(operation:path:errno:)``.
    public static func file(_ path: String) -> PasscodeSource {
        PasscodeSource { try SecretReader.file(path, maximum: maximumLength + 2) }
    }

    /// What can be read from an open descriptor, up to its end: a pipe or a file, not a terminal. The descriptor
    /// stays open.
    ///
    /// - Parameter descriptor: Its number. What has been read from a pipe is gone: for one use only.
    public static func fileDescriptor(_ descriptor: Int32) -> PasscodeSource {
        PasscodeSource {
            try SecretReader.descriptor(
                descriptor,
                path: "file descriptor \(descriptor)",
                maximum: maximumLength + 2
            )
        }
    }

    /// The file of that name in `$CREDENTIALS_DIRECTORY`, where systemd puts a service's credentials
    /// (`LoadCredential=`, `LoadCredentialEncrypted=`).
    ///
    /// - Parameter name: The credential's name in the unit.
    public static func credential(_ name: String = "lockbox-passcode") -> PasscodeSource {
        PasscodeSource {
            guard let directory = Environment["CREDENTIALS_DIRECTORY"] else {
                throw LockboxError.invalidPasscode(reason: "CREDENTIALS_DIRECTORY is not set")
            }
            return try SecretReader.file("\(directory)/\(name)", maximum: maximumLength + 2)
        }
    }

    /// An environment variable: a last resort. Other processes of the user can read it in `/proc`, children inherit
    /// it, and it may end up in logs.
    ///
    /// - Parameter name: The variable. An empty one counts as not set.
    public static func environment(_ name: String = "LOCKBOX_PASSCODE") -> PasscodeSource {
        PasscodeSource {
            guard let value = Environment[name] else {
                throw LockboxError.invalidPasscode(reason: "\(name) is not set")
            }
            return Array(value.utf8)
        }
    }

    /// The first of these that there is: the file named by `LOCKBOX_PASSCODE_FILE`; the credential
    /// `lockbox-passcode`; the variable `LOCKBOX_PASSCODE`.
    public static let standard = PasscodeSource {
        if let path = Environment["LOCKBOX_PASSCODE_FILE"] {
            return try SecretReader.file(path, maximum: maximumLength + 2)
        }
        if let directory = Environment["CREDENTIALS_DIRECTORY"],
            access("\(directory)/lockbox-passcode", F_OK) == 0
        {
            return try credential().source()
        }
        return try environment().source()
    }

    /// Hands the passcode to `body`, and wipes it.
    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        var bytes = try source()
        defer { Sodium.wipe(&bytes) }
        if bytes.last == UInt8(ascii: "\n") {
            bytes.removeLast()
            if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        }
        canonicalize(&bytes)
        if bytes.isEmpty { throw LockboxError.invalidPasscode(reason: "it is empty") }
        if bytes.count > Self.maximumLength {
            throw LockboxError.invalidPasscode(reason: "it is longer than \(Self.maximumLength) bytes")
        }
        return try bytes.withUnsafeBytes(body)
    }
}

/// Puts text into Unicode normalization form C, in which a passcode is one however it was typed; leaves bytes that are no text.
/// Whatever it copies, it wipes.
private func canonicalize(_ bytes: inout [UInt8]) {
    if bytes.allSatisfy({ $0 < 0x80 }) { return }
    guard var text = String(validating: bytes, as: UTF8.self) else { return }
    var canonical: [UInt8] = []
    // What this form takes at most: never grown, which would leave copies.
    canonical.reserveCapacity(3 * bytes.count)
    // One character after the other, as composition goes no further: Foundation keeps copies, but only of a few bytes each.
    for character in text { canonical += String(character).canonical.utf8 }
    text.withUTF8 { Sodium.wipe(UnsafeMutableRawBufferPointer(mutating: UnsafeRawBufferPointer($0))) }
    Sodium.wipe(&bytes)
    bytes = canonical
}

extension PasscodeSource: CustomStringConvertible, CustomReflectable {
    /// Nothing of the passcode.
    public var description: String { "Passcode" }

    /// Nothing of the passcode.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
