import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A fresh folder for one test, removed when the test is done with it.
final class TestStore: Sendable {
    static let prefix = testPrefix

    /// The present folders. Those still referenced then, as by a fault that holds its own backend, are removed when the process
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

    /// What the user remembers: beside the store, so that no test knows anything of another one, and nothing outlasts them.
    var memory: StoreMemory { StoreMemory("\(Path.parent(of: directory))/state/known-stores", of: directory) }

    /// Faster than to make the same again, as nothing is synchronized.
    convenience init(copying store: TestStore) throws {
        try self.init()
        if FileManager.default.fileExists(atPath: store.directory) {
            try FileManager.default.copyItem(atPath: store.directory, toPath: directory)
        }
    }

    deinit { Self.remove(Path.parent(of: directory)) }

    /// Like a process that has just started. The folder is there as long as any of its backends. The time limit is short, for
    /// tests in which a thread waits for a lock that it holds itself. Where threads or processes take turns, give a longer one.
    func backend(
        _ calls: SystemCalls = SystemCalls(),
        lockTimeout: Duration = .milliseconds(200),
        deviceKey: DeviceKeySource = .stored,
        requires requirements: StoreRequirements = StoreRequirements(),
        kernel: KernelKeyring = KernelKeyring(),
        remembers: Bool = true,
        memory: StoreMemory? = nil,
        counter: (any GenerationCounter)? = nil
    ) -> EncryptedFileBackend {
        EncryptedFileBackend(
            KeyStore(
                storage: storage(calls, lockTimeout: lockTimeout),
                deviceKey: deviceKey,
                requires: requirements,
                kernel: kernel,
                memory: remembers ? memory ?? self.memory : nil,
                counter: counter
            )
        )
    }

    func storage(_ calls: SystemCalls = SystemCalls(), lockTimeout: Duration = .milliseconds(200))
        -> FileStorage
    {
        let calls = SystemCalls(fault: { call in withExtendedLifetime(self) { calls.fault?(call) } })
        return FileStorage(
            StoreLocation(directory),
            calls: calls,
            lockTimeout: lockTimeout,
            isForOneMachine: fileSystem != nil
        )
    }

    func lockbox(
        _ prefix: String = TestStore.prefix,
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws -> Lockbox {
        try backend().lockbox(prefix, now: now)
    }

    /// The path of an item's file.
    func path(_ key: String, prefix: String = TestStore.prefix) throws -> String {
        let backend = backend()
        return backend.storage.location(of: try backend.recordName(of: ItemKey(prefix: prefix, key: key)))
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

    /// Leaves a file in `tmp`, as a killed writer does, or makes one older. Returns its path.
    ///
    /// - Parameter age: In seconds. By default it is old enough to be removed by the next write.
    @discardableResult
    func leaveBehind(_ name: String = AbandonedFiles.newName(), age: Int = 3 * 24 * 60 * 60) throws -> String
    {
        let path = "\(directory)/tmp/\(name)"
        try overwrite(path, [1])
        let date = Date(timeIntervalSinceNow: TimeInterval(-age))
        try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: path)
        return path
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

extension DeviceKeySource {
    static func bytes(_ bytes: [UInt8]) -> DeviceKeySource { .closure { bytes } }
}
