import Foundation
import Testing

@testable import LockboxCore
@testable import LockboxStore

/// Others' changes of a store's folder.
extension TestStore {
    /// Changes the last byte of an item, so its value cannot be opened. Returns the path of its file.
    @discardableResult
    func damage(_ key: String, prefix: String = TestStore.prefix) throws -> String {
        let path = try path(key, prefix: prefix)
        try flipLastByte(of: path)
        return path
    }

    /// Also in the kernel, where the keys would outlast the test.
    func lockForEverybody() { try? backend().lock(includingAfterFirstUnlock: true) }

    /// Changes the passcode to "5678" as a process does that the kernel refuses: what the kernel holds opens nothing then.
    func makeKernelStale() throws {
        let refused = backend(kernel: KernelKeyring { EPERM })
        try refused.unlock(.value("1234"))
        try refused.changePasscode(to: .value("5678"), strength: .interactive)
    }

    /// Removes the store and puts a copy in its place.
    func replace(with copy: TestStore) throws {
        try FileManager.default.removeItem(atPath: directory)
        try FileManager.default.copyItem(atPath: copy.directory, toPath: directory)
    }

    /// Moves the folder away and puts a copy in its place, as a restore does.
    func copyInPlace() throws {
        let aside = directory + "-moved"
        try FileManager.default.moveItem(atPath: directory, toPath: aside)
        try FileManager.default.copyItem(atPath: aside, toPath: directory)
        Self.waitUntilChangesAreSeen()
    }

    /// The folder of an item, opened anew, as by another process.
    func folder(of key: String, _ calls: SystemCalls = SystemCalls()) throws -> Directory {
        let path = Path.parent(of: try path(key))
        return try #require(
            try Directory.open(
                path,
                at: SystemCalls.currentDirectory,
                path: path,
                calls: calls,
                creating: false
            )
        )
    }

    /// Whoever has a store open looks at its folders once in a millisecond.
    static func waitUntilChangesAreSeen() { usleep(2000) }
}

extension LockFile {
    func waitUntilItIsWaitedFor() {
        let end = ContinuousClock.now + .seconds(20)
        while !isWaitedFor, .now < end { usleep(100) }
    }
}
