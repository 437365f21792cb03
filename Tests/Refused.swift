// In no module: Scripts/test-snippets checks that the compiler refuses these lines, and what it says.
import Lockbox

extension LockboxKey<Int> { static var attempts: Self { Self("attempts", default: 0) } }

func blocks(_ lockbox: Lockbox, _ backend: EncryptedFileBackend, _ other: any LockboxBackend) async throws {
    _ = try lockbox.allKeys()
    // error: call it in try await lockbox.async { }.
    defer { try? lockbox.removeAllObjects() }
    // error: call it in try await lockbox.async { }.
    _ = try lockbox[.attempts]
    // error: call try await lockbox.unarchiveObject(forKey:).
    try Lockbox.removeObject(forKey: "k")
    // error: call try await Lockbox.default.removeObject.
    try backend.unlock(.value("1"))
    // error: call it in try await backend.async { }.
    _ = try other.lockState
    // error: call it in try await backend.async { }.
    try lockbox.removeObject(forKey: "k")
    // error: not marked with 'await'
}

func doesNotBlock(_ lockbox: Lockbox, _ backend: EncryptedFileBackend) async throws {
    defer { try? lockbox.removeObject(forKey: "k") }  // which cannot wait
    _ = try await lockbox.async { try $0.allKeys() }
    try await backend.async { _ = try $0.unlock(.value("1")) }
    try await lockbox.removeObject(forKey: "k")
}

func typedKeys(_ lockbox: Lockbox) throws {
    _ = LockboxKey<Int>("x")
    // error: Give a default: LockboxKey(name, default: value).
    _ = LockboxKey("x", default: 0, accessibility: .always)
    // error: Write options: WriteOptions(accessibility:
    _ = LockboxKey<Int?>("x", accessibility: .always)
    // error: Write options: WriteOptions(accessibility:
    try lockbox.archiveObject(1, forKey: .attempts, accessibility: .always)
    // error: Write options: WriteOptions(accessibility:
    try lockbox.update(.attempts, options: WriteOptions()) { $0 += 1 }
    // error: Declare the options in the key
}
