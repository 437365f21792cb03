import Foundation

@testable import LockboxAge
import LockboxPlatform

/// For Scripts/test-age: from standard input to standard output.
///
///     LockboxTestProcess age encrypt RECIPIENT…    age1…, or one passphrase
///     LockboxTestProcess age decrypt IDENTITY…     AGE-SECRET-KEY-1…, or a passphrase
func ageFiles(_ arguments: [String]) throws {
    let keys = arguments.dropFirst()
    switch arguments.first {
    case "encrypt":
        var age = try AgeEncryptor(
            to: keys.map { key in
                key.hasPrefix("age1")
                    ? .x25519(try AgePublicKey(key)) : .passphrase(WipedBytes(key.utf8), workFactor: 10)
            }
        )
        FileHandle.standardOutput.write(Data(age.header))
        while let bytes = try FileHandle.standardInput.read(upToCount: 100_003), !bytes.isEmpty {
            FileHandle.standardOutput.write(Data(age.encrypt(Array(bytes))))
        }
        FileHandle.standardOutput.write(Data(age.finish()))
    case "decrypt":
        let identities: [AgeIdentity] = try keys.map { key in
            key.hasPrefix("AGE-SECRET-KEY-")
                ? .x25519(try AgePrivateKey(key)) : .passphrase(WipedBytes(key.utf8))
        }
        var age = try AgeDecryptor(identities) { read(STDIN_FILENO, $0.baseAddress!, $0.count) }
        while let bytes = try age.next() { FileHandle.standardOutput.write(Data(bytes)) }
    default: exit(64)
    }
}
