import Foundation
import Testing

@testable import Lockbox
@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The process-wide default and the environment. Each test is a process of its own: the state is global.
@Suite struct DefaultTests {
    @Test func staticMethodsNeedAPrefix() async {
        await #expect(processExitsWith: .success) { try GlobalState.missingPrefix() }
    }

    @Test func staticMethodsDoWhatTheInstanceDoes() async {
        await #expect(processExitsWith: .success) { try GlobalState.staticMethods() }
    }

    @Test func environmentNamesPrefixAndFolder() async {
        await #expect(processExitsWith: .success) { try GlobalState.environment() }
    }

    @Test(arguments: [
        (["LOCKBOX_DIRECTORY": "/a", "STATE_DIRECTORY": "/b", "XDG_DATA_HOME": "/c", "HOME": "/d"], "/a"),
        (["STATE_DIRECTORY": "/b:/b2", "XDG_DATA_HOME": "/c", "HOME": "/d"], "/b/lockbox"),
        (["XDG_DATA_HOME": "/c", "HOME": "/d"], "/c/lockbox"),
        (["XDG_DATA_HOME": "relative", "HOME": "/d"], "/d/.local/share/lockbox"),
        (["HOME": "/d"], "/d/.local/share/lockbox"),
    ])
    func storeIsWhereItIsExpected(_ environment: [String: String], _ directory: String) {
        #expect(location(environment).directory == directory)
        #expect(location(environment).refusal == nil)
    }

    private func location(_ environment: [String: String]) -> StoreLocation {
        StoreLocation.standard { (name) throws(LockboxError) in environment[name] }
    }

    @Test func theHomeFolderIsExpanded() {
        let home = ["HOME": "/d"]
        let variables: HomeFolder.Variables = { (name) throws(LockboxError) in home[name] }
        #expect(location(["LOCKBOX_DIRECTORY": "~/secrets", "HOME": "/d"]).directory == "/d/secrets")
        #expect(StoreLocation("~/a/b/", variables).directory == "/d/a/b")
        #expect(StoreLocation("~", variables).directory == "/d")
        #expect(
            StoreLocation("./~/a", variables).directory == FileManager.default.currentDirectoryPath + "/./~/a"
        )
    }

    /// Each would be a store in the current folder, or another one than was meant. Nothing is made, by no call.
    @Test(arguments: [
        "", "~somebody/store", "secrets", "a.example", "secrets/x", ".secrets", "a.example:2379/x",
        "etcd://a.example/x", "etcd:/x", "file:///x", "/a\0b",
    ])
    func whatIsNoFolderIsRefused(_ directory: String) throws {
        #expect(StoreLocation(directory).refusal?.code == .invalidLocation)
        let backend = EncryptedFileBackend(directory: directory)
        let lockbox = try Lockbox(keyPrefix: "p", backend: backend)
        let calls: [() throws -> Void] = [
            { try lockbox.archiveObject("secret", forKey: "k") }, { _ = try lockbox.allKeys() },
            { _ = try lockbox.unarchiveObject(String.self, forKey: "k") }, { _ = try backend.verify() },
            { try lockbox.removeObject(forKey: "k") }, { try backend.setPasscode(.value("p")) },
            { _ = try lockbox.changes() },
        ]
        for call in calls { expectError(.invalidLocation, from: call) }
        #expect(!FileManager.default.fileExists(atPath: "keybag"))
    }

    /// What systemd, `docker run --env-file`, templates and files of Windows leave.
    @Test(arguments: [
        "\"/srv/x\"", "'/srv/x'", "$HOME/x", "/srv/${USER}", "%h/x", "/srv/%u", "{{ home }}/x",
        "/srv/{{ x }}", " /srv/x",
        "/srv/x ", "/srv/x\r", "/srv/x\n", "\t/srv/x", "~/x\r", "./$(pwd)", "/srv/\u{9B}x",
    ])
    func whatWasToBeReplacedIsNoPathAndNoPrefix(_ text: String) throws {
        #expect(StoreLocation(text).refusal?.code == .invalidLocation)
        #expect(location(["LOCKBOX_DIRECTORY": text]).refusal?.code == .invalidLocation)
        if Path.isAbsolute(text) {
            #expect(location(["STATE_DIRECTORY": text]).refusal?.code == .invalidLocation)
            #expect(location(["XDG_DATA_HOME": text, "HOME": "/d"]).refusal?.code == .invalidLocation)
        }
        expectError(.invalidKey) { try ItemKey.checkIsWrittenOut(text) }
        // What an app or a store has is read.
        _ = try Lockbox(keyPrefix: text, backend: InMemoryBackend())
    }

    @Test func aFolderThatIsThereMayHaveAnyName() throws {
        let store = try TestStore()
        let folder = "\(Path.parent(of: store.directory))/{$x}"
        #expect(StoreLocation(folder).refusal?.code == .invalidLocation)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        #expect(StoreLocation(folder).refusal == nil)
    }

    @Test(arguments: ["/srv/a%20b", "/srv/it's \"x\" here", "/srv/50%", "/srv/\"", "/srv/ü ö", "/srv/a'"])
    func otherSignsArePartsOfAName(_ text: String) throws {
        #expect(StoreLocation(text).refusal == nil)
        try ItemKey.checkIsWrittenOut(text)
    }

    @Test(arguments: [
        ["HOME": "home"], ["HOME": "~"], ["STATE_DIRECTORY": "state"], ["LOCKBOX_DIRECTORY": "~x/s"],
        ["LOCKBOX_DIRECTORY": "secrets"], ["LOCKBOX_DIRECTORY": "a.example"],
    ])
    func relativeFoldersOfTheEnvironmentAreRefused(_ environment: [String: String]) {
        #expect(location(environment).refusal?.code == .invalidLocation)
    }

    @Test func whatIsNotUTF8IsRefused() async throws {
        await #expect(processExitsWith: .success) {
            let store = try TestStore()
            try GlobalState.notUTF8(Path.parent(of: store.directory))
        }
    }

    @Test func aRemovedCurrentFolderIsRefused() async {
        await #expect(processExitsWith: .success) { try GlobalState.removedFolder() }
    }

    @Test func theHomeFolderComesFromTheUserDatabase() throws {
        let file = NSTemporaryDirectory() + "passwd-\(UInt64.random(in: .min ... .max))"
        defer { unlink(file) }
        try overwrite(
            file,
            Array("a:x:0:0:n:/r:/bin/sh\nbad:x:7\nb:x:7:7::/home/b:/bin/sh\n".utf8) + [0xff, 0x0a]
        )
        #expect(try HomeFolder.ofUser(7, in: file) == "/home/b")
        let error = lockboxError { _ = try HomeFolder.ofUser(8, in: file) }
        #expect("\(error as Any)".contains("LOCKBOX_DIRECTORY"))
        expectError(.invalidLocation) { _ = try HomeFolder.ofUser(7, in: "\(file)-missing") }
        try overwrite(file, Array("b:x:7:7::/home/".utf8) + [0xff] + Array(":/bin/sh\n".utf8))
        expectError(.invalidLocation) { _ = try HomeFolder.ofUser(7, in: file) }
    }

    @Test func pathsAreAbsoluteAndEndInNoSlash() throws {
        #expect(try Path.absolute("/a/b//") == "/a/b")
        #expect(try Path.absolute("/") == "/")
        #expect(try Path.absolute("a") == FileManager.default.currentDirectoryPath + "/a")
        let marked = "/\u{301}a/\u{301}b"
        #expect(try Path.absolute(marked) == marked, "a slash is a byte")
        #expect(Path.parent(of: marked) == "/\u{301}a" && Path.name(of: marked) == "\u{301}b")
    }
}

/// Code for a process of its own. Synchronous where the calls are meant to be: in an async function the async
/// overloads would be chosen.
private enum GlobalState {
    struct Unmet: Error {}

    static func expect(_ condition: Bool) throws {
        if !condition { throw Unmet() }
    }

    static func missingPrefix() throws {
        unsetenv("LOCKBOX_KEY_PREFIX")
        do { _ = try Lockbox.unarchiveObject(String.self, forKey: "key") } catch LockboxError.missingKeyPrefix
        { return }
        throw Unmet()
    }

    static func staticMethods() throws {
        let backend = InMemoryBackend()
        try Lockbox.configure(keyPrefix: "com.example.static", backend: backend)
        try Lockbox.archiveObject("secret", forKey: "key", accessibility: .always)
        try expect(Lockbox.unarchiveObject(forKey: "key") == "secret")
        try expect(Lockbox.default.attributes(forKey: "key")?.accessibility == .always)

        let instance = try backend.lockbox("com.example.static")
        try expect(instance.unarchiveObject(forKey: "key") == "secret")
        try Lockbox.removeObject(forKey: "key")
        try expect(!instance.containsObject(forKey: "key"))
    }

    static func refuses(_ body: () throws -> Void) throws {
        do { try body() } catch let error as LockboxError where error.code == .invalidLocation { return }
        throw Unmet()
    }

    static func notUTF8(_ base: String) throws {
        setenv("LOCKBOX_KEY_PREFIX", "p", 1)
        for name in ["LOCKBOX_DIRECTORY", "STATE_DIRECTORY", "XDG_DATA_HOME"] { unsetenv(name) }
        let home = Array("\(base)/home-".utf8) + [0xff]
        (home + [0]).withUnsafeBufferPointer { bytes in
            bytes.withMemoryRebound(to: CChar.self) { _ = setenv("HOME", $0.baseAddress!, 1) }
        }
        try refuses { try Lockbox.archiveObject("secret", forKey: "k") }
        try refuses { _ = try EncryptedFileBackend(directory: "~/s").prefixes() }
        // The same goes for a folder in one whose name is not UTF-8.
        try expect(
            (home + [0]).withUnsafeBytes { mkdir($0.baseAddress!.assumingMemoryBound(to: CChar.self), 0o700) }
                == 0
        )
        try expect(
            (home + [0]).withUnsafeBytes { chdir($0.baseAddress!.assumingMemoryBound(to: CChar.self)) } == 0
        )
        try refuses { _ = try EncryptedFileBackend(directory: "./s").prefixes() }
        setenv("LOCKBOX_PASSCODE", "\(base)", 1)
        try expect(FileManager.default.contentsOfDirectory(atPath: base).count == 1)
    }

    static func removedFolder() throws {
        let folder = NSTemporaryDirectory() + "lockbox-\(UInt64.random(in: .min ... .max))"
        try expect(mkdir(folder, 0o700) == 0 && chdir(folder) == 0 && rmdir(folder) == 0)
        try refuses { _ = try EncryptedFileBackend(directory: "./secrets").prefixes() }
        try refuses { _ = try ReplaceableFile.absolutePath("settings.json") }
        let backend = EncryptedFileBackend(directory: "/nonexistent/store")
        try refuses { _ = try backend.importBackup(from: "backup", with: .passphrase(.value("p"))) }
    }

    static func environment() throws {
        let store = try TestStore()
        setenv("LOCKBOX_KEY_PREFIX", "com.example.environment", 1)
        setenv("LOCKBOX_DIRECTORY", store.directory, 1)
        try Lockbox.archiveObject("secret", forKey: "key")
        try expect(Lockbox.default.keyPrefix == "com.example.environment")
        try expect(access(store.keybag, F_OK) == 0)
        try expect(store.lockbox("com.example.environment").unarchiveObject(forKey: "key") == "secret")
    }
}
