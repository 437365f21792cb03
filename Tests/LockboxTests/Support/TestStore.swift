import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// A fresh folder for one test, removed when the test is done with it.
final class TestStore: Sendable {
    static let prefix = "com.example.tests"

    /// What there is now. What is still referenced then, as by a fault that holds its own backend, is removed when the process
    /// ends.
    private static let folders: Protected<Set<String>> = {
        atexit { for folder in TestStore.folders.withLock({ $0 }) { TestStore.remove(folder) } }
        return Protected([])
    }()

    private static func remove(_ folder: String) {
        try? FileManager.default.removeItem(atPath: folder)
        folders.withLock { _ = $0.remove(folder) }
    }

    let directory: String
    private let fileSystem: TestFileSystem?

    /// - Parameter fileSystem: Where to; nil, in the system's folder for temporary files.
    init(on fileSystem: TestFileSystem? = nil) throws {
        self.fileSystem = fileSystem
        let base =
            (fileSystem.map { $0.folder + "/" } ?? NSTemporaryDirectory())
            + "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        try FileManager.default.createDirectory(atPath: base, withIntermediateDirectories: true)
        directory = base + "/store"
        Self.folders.withLock { [base] in _ = $0.insert(base) }
    }

    /// Faster than to make the same again, as nothing is synchronized.
    convenience init(copying store: TestStore) throws {
        try self.init()
        if FileManager.default.fileExists(atPath: store.directory) {
            try FileManager.default.copyItem(atPath: store.directory, toPath: directory)
        }
    }

    deinit { Self.remove(Path.parent(of: directory)) }

    /// As a process that has just started. The folder is there as long as any of its backends.
    func backend(_ calls: SystemCalls = SystemCalls(), lockTimeout: Duration = .milliseconds(200))
        -> EncryptedFileBackend
    {
        let calls = SystemCalls(fault: { call in withExtendedLifetime(self) { calls.fault?(call) } })
        return EncryptedFileBackend(
            storage: FileStorage(directory: directory, calls: calls, lockTimeout: lockTimeout)
        )
    }

    func lockbox(_ prefix: String = TestStore.prefix, _ calls: SystemCalls = SystemCalls()) throws -> Lockbox
    {
        try Lockbox(keyPrefix: prefix, backend: backend(calls))
    }

    /// The path of an item's file.
    func path(_ key: String, prefix: String = TestStore.prefix) throws -> String {
        let backend = backend()
        return backend.storage.location(of: try backend.record(of: ItemKey(prefix: prefix, key: key)))
    }

    var keybag: String { "\(directory)/keybag" }
    var deviceKey: String { "\(directory)/device-key" }

    /// Everything in the folder: paths with type, mode and bytes. The change count in a lock file is nobody's concern.
    func snapshot() throws -> [String: Entry] {
        var entries: [String: Entry] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: directory) {
            entries[path] = try Entry("\(directory)/\(path)")
        }
        return entries
    }

    /// The names of the files that are neither items nor anything else that belongs there.
    func leftovers() throws -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: "\(directory)/tmp")) ?? []
    }

    /// How many descriptors of this process are open below the folder.
    func openDescriptors() -> Int {
        let own = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return own.count { descriptor in
            let target = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/\(descriptor)"
            )
            return target?.hasPrefix(directory) ?? false
        }
    }

    struct Entry: Equatable, CustomStringConvertible {
        let mode: mode_t
        let bytes: [UInt8]?

        init(_ path: String) throws {
            var status = stat()
            guard lstat(path, &status) == 0 else { throw CocoaError(.fileReadUnknown) }
            mode = status.st_mode
            let isFile = status.st_mode & S_IFMT == S_IFREG
            bytes = isFile ? path.hasSuffix("/lock") ? [] : try readBytes(path) : nil
        }

        var description: String { "0\(String(mode, radix: 8)), \(bytes?.count ?? 0) bytes" }
    }
}

extension SystemCalls {
    /// Runs `body` before each of these calls, until it returns true.
    static func before(_ call: Call, _ body: @escaping @Sendable () -> Bool) -> SystemCalls {
        let isDone = Protected(false)
        return SystemCalls {
            if $0 == call, !isDone.withLock({ $0 }), body() { isDone.withLock { $0 = true } }
            return nil
        }
    }

    /// From this call on nothing works any more, as for a process that is killed there.
    static func failing(from call: Int) -> SystemCalls {
        let count = Protected(0)
        return SystemCalls { _ in
            count.withLock {
                $0 += 1
                return $0 >= call ? .failure(EIO) : nil
            }
        }
    }
}

func readBytes(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(fileURLWithPath: path))) }

/// In place, so that owner and mode stay.
func overwrite(_ path: String, _ bytes: [UInt8]) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    try #require(write(descriptor, bytes, bytes.count) == bytes.count)
}

extension TestStore {
    func deviceKeys() throws -> [SecretKey] {
        try readBytes(deviceKey).withUnsafeBytes { try DeviceKeyRecord.decode($0) }
    }

    func openedKeybag() throws -> Keybag { try Keybag.read(readBytes(keybag), deviceKeys()) }
}

extension Keybag {
    static func read(_ bytes: [UInt8], _ deviceKeys: [SecretKey]) throws -> Keybag {
        var bytes = bytes
        return try bytes.withUnsafeMutableBytes { try Keybag($0, deviceKeys: deviceKeys) }
    }

    /// A new store's.
    static func create(deviceKey: SecretKey) throws -> Keybag {
        try read(KeybagContents().encoded(deviceKey: deviceKey), [deviceKey])
    }

    /// As much as opens without a slot.
    func keyring() throws -> Keyring { try Keyring(keybag: self, keys: open(unlockKeys(with: nil)).keys) }
}
