import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A file that others could read or change, or that is no plain file, is refused with its path and the reason.
@Suite(.timeLimit(.minutes(10))) struct PermissionTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        try store.lockbox().archiveObject("secret", forKey: "key")
    }

    private func path(of name: String) throws -> String {
        switch name {
        case "item": try store.path("key")
        case "scope": Path.parent(of: try store.path("key"))
        case "root": store.directory
        default: "\(store.directory)/\(name)"
        }
    }

    /// Both a read and a write are refused, at once, and change nothing.
    private func expectRefusal(_ path: String, _ reason: String, reads: Bool = true) throws {
        let start = ContinuousClock.now
        let lockbox = try store.lockbox()
        let before = try store.snapshot()
        var calls: [() throws -> Void] = [{ try lockbox.archiveObject("new", forKey: "key") }]
        if reads { calls.append { _ = try lockbox.unarchiveObject(String.self, forKey: "key") } }
        for call in calls {
            guard case .unsafePermissions(let refused, let found) = lockboxError(call) else {
                Issue.record("\(path) was not refused: \(String(describing: lockboxError(call)))")
                continue
            }
            #expect(refused.description == path)
            #expect(found.contains(reason), "\(found)")
        }
        #expect(try store.snapshot() == before)
        #expect(ContinuousClock.now - start < .seconds(1))
    }

    @Test(arguments: ["item", "keybag", "device-key"], [0o640, 0o604, 0o660, 0o666, 0o777] as [mode_t])
    func filesThatOthersCanUse(_ name: String, _ mode: mode_t) throws {
        let path = try path(of: name)
        chmod(path, mode)
        try expectRefusal(path, "its mode 0\(String(mode, radix: 8))")
        let subjects: [String: LockboxError.Subject] = [
            "item": .record(path), "keybag": .keybag(path), "device-key": .deviceKey(path),
        ]
        let error = lockboxError { try store.lockbox().unarchiveObject(String.self, forKey: "key") }
        #expect(error?.subject == subjects[name])
        chmod(path, 0o600)
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "secret", "the control")
    }

    @Test func lockFilesThatOthersCanUse() throws {
        let path = try path(of: "scope") + "/lock"
        chmod(path, 0o666)
        try expectRefusal(path, "its mode 0666", reads: false)
    }

    @Test(arguments: ["root", "items", "scope", "tmp"], [0o770, 0o702, 0o777] as [mode_t])
    func foldersThatOthersCanWriteTo(_ name: String, _ mode: mode_t) throws {
        let path = try path(of: name)
        chmod(path, mode)
        try expectRefusal(path, "its mode 0\(String(mode, radix: 8))", reads: name != "tmp")
    }

    @Test(
        .enabled(if: geteuid() == 0, "only root can give a file away"),
        arguments: ["item", "keybag", "device-key", "root", "items", "scope"]
    )
    func whatBelongsToAnotherUser(_ name: String) throws {
        let path = try path(of: name)
        chown(path, 65534, 65534)
        try expectRefusal(path, "it belongs to user 65534")
    }

    enum Impostor: CaseIterable {
        case symbolicLink, danglingLink, fifo, folder, device, socket

        /// Only root can make a device.
        static var possible: [Impostor] { allCases.filter { $0 != .device || geteuid() == 0 } }
    }

    private func put(_ impostor: Impostor, at path: String) throws -> String {
        let away = Path.parent(of: store.directory) + "/target"
        try FileManager.default.moveItem(atPath: path, toPath: away)
        switch impostor {
        case .symbolicLink: symlink(away, path)
        case .danglingLink: symlink(away + "-missing", path)
        case .fifo:
            mkfifo(path, 0o600)
            // Frees whoever waits for a writer: a test that hangs tells nobody which it is.
            let rescue = DispatchTime.now() + .seconds(2)
            DispatchQueue.global().asyncAfter(deadline: rescue) {
                let writer = open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW)
                if writer >= 0 { close(writer) }
            }
        case .folder: mkdir(path, 0o700)
        case .device: try #require(mknod(path, S_IFCHR | 0o600, 0x103) == 0)  // null
        case .socket: try #require(mknod(path, S_IFSOCK | 0o600, 0) == 0)
        }
        return switch impostor {
        case .symbolicLink, .danglingLink: "it is a symbolic link"
        case .fifo: "it is a FIFO"
        case .folder: "it is a folder"
        case .device: "it is a device"
        case .socket: "it is a socket"
        }
    }

    @Test(arguments: ["item", "keybag", "device-key"], Impostor.possible)
    func impostors(_ name: String, _ impostor: Impostor) throws {
        let path = try path(of: name)
        let target = Path.parent(of: store.directory) + "/target"
        let bytes = try readBytes(path)
        let reason = try put(impostor, at: path)
        try expectRefusal(path, reason)
        #expect(try readBytes(target) == bytes, "the target is untouched")
    }

    /// Their target is not touched.
    @Test(arguments: Impostor.possible, [true, false])
    func impostorsAreRemoved(_ impostor: Impostor, _ isAlone: Bool) throws {
        let path = try path(of: "item")
        let target = Path.parent(of: store.directory) + "/target"
        let bytes = try readBytes(path)
        _ = try put(impostor, at: path)
        let lockbox = try store.lockbox()
        if isAlone { try lockbox.removeObject(forKey: "key") } else { try lockbox.removeAllObjects() }
        var status = stat()
        #expect(lstat(path, &status) == -1 && errno == ENOENT)
        #expect(try readBytes(target) == bytes)
    }

    /// The root's lock is taken when the keybag is made or rewritten.
    @Test(arguments: Impostor.possible)
    func impostorsOfTheRootsLock(_ impostor: Impostor) throws {
        let path = try path(of: "lock")
        let reason = try put(impostor, at: path)
        let before = try store.snapshot()
        let error = lockboxError { try store.backend().setPasscode(.value("1234"), strength: .interactive) }
        guard case .unsafePermissions(.other(path), let found) = error else {
            Issue.record("it was not refused: \(String(describing: error))")
            return
        }
        #expect(found.contains(reason))
        #expect(try store.snapshot() == before)
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "secret", "readers need no lock")
    }

    @Test(arguments: Impostor.possible)
    func impostorsOfTheLock(_ impostor: Impostor) throws {
        let path = try path(of: "scope") + "/lock"
        let reason = try put(impostor, at: path)
        try expectRefusal(path, reason, reads: false)
    }

    @Test(arguments: ["root", "items", "scope"], [Impostor.symbolicLink, .danglingLink, .fifo])
    func impostorsOfFolders(_ name: String, _ impostor: Impostor) throws {
        let path = try path(of: name)
        let away = Path.parent(of: store.directory) + "/target"
        let reason = try put(impostor, at: path)
        let lockbox = try store.lockbox()
        for call in [
            { _ = try lockbox.unarchiveObject(String.self, forKey: "key") },
            { try lockbox.archiveObject("new", forKey: "key") },
        ] {
            guard case .unsafePermissions(let refused, let found) = lockboxError(call) else {
                Issue.record("\(path) was not refused: \(String(describing: lockboxError(call)))")
                continue
            }
            #expect(refused.description == path)
            #expect(found.contains(reason))
        }
        if impostor == .fifo {
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: away, toPath: path)
            #expect(try store.lockbox().unarchiveObject(forKey: "key") == "secret", "the target is untouched")
        }
    }

    /// `cp -al` makes it, and programs for backups and snapshots.
    @Test func aCopyOfHardLinksLeavesTheStoreUsable() throws {
        let copy = store.directory + "-copy"
        try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: true)
        for name in try FileManager.default.subpathsOfDirectory(atPath: store.directory).sorted() {
            let path = "\(store.directory)/\(name)"
            if try TestStore.Entry(path).bytes == nil {
                mkdir("\(copy)/\(name)", 0o700)
            } else {
                try #require(link(path, "\(copy)/\(name)") == 0)
            }
        }
        let lockbox = try store.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "key") == "secret")
        try lockbox.archiveObject("new", forKey: "key")
        let old = EncryptedFileBackend(directory: copy)
        #expect(try old.lockbox(TestStore.prefix).unarchiveObject(forKey: "key") == "secret")
        #expect(try store.backend().verify().findings == [])
        try store.backend().rotateKeys()
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
    }

    @Test func hugeFilesAreRefusedUnread() throws {
        let path = try path(of: "item")
        truncate(path, 10 << 30)
        expectError(.corrupt) { try store.lockbox().unarchiveObject(String.self, forKey: "key") }
        truncate(store.keybag, 10 << 30)
        expectError(.corrupt) { try store.lockbox().unarchiveObject(String.self, forKey: "key") }
    }

    /// umask belongs to the whole process, hence one of its own.
    @Test func modesWhateverTheUmask() async {
        await #expect(processExitsWith: .success) {
            for mask: mode_t in [0o000, 0o022, 0o077, 0o777] { try PermissionTests.expectModes(with: mask) }
        }
    }

    private static func expectModes(with mask: mode_t) throws {
        let store = try TestStore()
        let old = umask(mask)
        try store.lockbox().archiveObject("secret", forKey: "key")
        umask(old)
        var status = stat()
        #expect(stat(store.directory, &status) == 0 && status.st_mode & 0o7777 == 0o700)
        for (path, entry) in try store.snapshot() {
            let expected: mode_t = entry.bytes == nil ? S_IFDIR | 0o700 : S_IFREG | 0o600
            #expect(entry.mode == expected, "\(path), with the umask \(String(mask, radix: 8))")
        }
    }

    #if os(Linux)
        @Test func noDescriptorGoesToAProgramThatIsExecuted() throws {
            let store = try TestStore()
            let seen = Protected(0)
            let calls = SystemCalls { [directory = store.directory] call in
                for number in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
                    let target = try? FileManager.default.destinationOfSymbolicLink(
                        atPath: "/proc/self/fd/\(number)"
                    )
                    guard let descriptor = CInt(number), target?.hasPrefix(directory) ?? false else {
                        continue
                    }
                    seen.withLock { $0 += 1 }
                    #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0, "before \(call): \(target ?? "")")
                }
                return nil
            }
            try store.backend(calls).lockbox().archiveObject("secret", forKey: "key")
            #expect(seen.withLock { $0 } > 10)
        }
    #endif

    @Test func missingParentsAreMadeForTheOwnerOnly() throws {
        let base = Path.parent(of: store.directory)
        try EncryptedFileBackend(directory: "\(base)/a/b/c/").lockbox("p").archiveObject(
            1,
            forKey: "k"
        )
        for folder in ["a", "a/b", "a/b/c"] {
            var status = stat()
            #expect(stat("\(base)/\(folder)", &status) == 0 && status.st_mode & 0o777 == 0o700, "\(folder)")
        }
    }

    /// The user's own programs could make nothing beside them.
    @Test(
        .enabled(if: geteuid() == 0, "only root can give a file away"),
        arguments: ["HOME", "XDG_DATA_HOME", "~/s"]
    )
    func rootMakesNoFoldersInTheHomeOfAnotherUser(_ name: String) throws {
        let home = Path.parent(of: store.directory) + "/home"
        mkdir(home, 0o755)
        chown(home, 65534, 65534)
        let variables: HomeFolder.Variables = { (variable) throws(LockboxError) in
            variable == (name == "~/s" ? "HOME" : name) ? home : nil
        }
        let location = name == "~/s" ? StoreLocation(name, variables) : StoreLocation.standard(variables)
        let backend = EncryptedFileBackend(storage: FileStorage(location))
        let error = lockboxError { try backend.lockbox("p").archiveObject(1, forKey: "k") }
        guard case .unsafePermissions(.other(home), let reason) = error else {
            Issue.record("it was not refused: \(String(describing: error))")
            return
        }
        #expect(reason.contains("it belongs to user 65534"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: home).isEmpty)
        chown(home, 0, 0)
        try backend.lockbox("p").archiveObject(1, forKey: "k")
    }

    /// Another mount would not see the locks.
    @Test func onFUSEAStoreIsOnlyRead() throws {
        var calls = SystemCalls()
        calls.isOnFUSE = { _ in true }
        func backend(_ directory: String, isForOneMachine: Bool = false) -> EncryptedFileBackend {
            EncryptedFileBackend(
                storage: FileStorage(StoreLocation(directory), calls: calls, isForOneMachine: isForOneMachine)
            )
        }
        try store.leaveBehind()
        let before = try store.snapshot()
        let lockbox = try backend(store.directory).lockbox(TestStore.prefix)
        #expect(try lockbox.unarchiveObject(forKey: "key") == "secret")
        #expect(try lockbox.allKeys() == ["key"])
        let writes: [() throws -> Void] = [
            { try lockbox.archiveObject("new", forKey: "key") }, { try lockbox.removeObject(forKey: "key") },
            { try lockbox.removeAllObjects() }, { try backend(self.store.directory).rotateKeys() },
        ]
        for write in writes { expectError(.readOnly, saying: "LOCKBOX_ONE_MACHINE=1", from: write) }
        #expect(try store.snapshot() == before, "the temporary file of a writer on another mount, too")
        let new = Path.parent(of: store.directory) + "/new"
        expectError(.readOnly) { try backend("\(new)/store").lockbox("p").archiveObject(1, forKey: "k") }
        #expect(!FileManager.default.fileExists(atPath: new))
        try backend(store.directory, isForOneMachine: true).lockbox(TestStore.prefix)
            .archiveObject("new", forKey: "key")
        #expect(try lockbox.unarchiveObject(forKey: "key") == "new")
    }

    @Test func readingAStoreThatIsNotThereMakesNothing() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == nil)
        #expect(try lockbox.allKeys().isEmpty)
        try lockbox.removeObject(forKey: "key")
        try lockbox.removeAllObjects()
        #expect(!FileManager.default.fileExists(atPath: store.directory))
    }
}
