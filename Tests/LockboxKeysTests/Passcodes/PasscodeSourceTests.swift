import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Where a passcode comes from. None of the sources waits for a person.
@Suite(.tags(.argon2id), .timeLimit(.minutes(10))) struct PasscodeSourceTests {
    private let folder: String
    private let store: TestStore

    init() throws {
        store = try TestStore()
        folder = Path.parent(of: store.directory)
    }

    private func text(_ passcode: PasscodeSource) throws -> String {
        try passcode.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    private func file(_ contents: String, _ name: String = "passcode") throws -> String {
        try overwrite("\(folder)/\(name)", Array(contents.utf8))
        return "\(folder)/\(name)"
    }

    @Test func valuesAndClosures() throws {
        #expect(try text(.value("1234")) == "1234")
        #expect(try text(.closure { Array("1234".utf8) }) == "1234")
        struct Cancelled: Error {}
        #expect(throws: Cancelled.self) { try text(.closure { throw Cancelled() }) }
    }

    @Test(arguments: [
        ("1234", "1234"), ("1234\n", "1234"), ("1234\r\n", "1234"), ("1234\n\n", "1234\n"),
        (" 12 34 ", " 12 34 "),
        ("12\n34\n", "12\n34"), ("\n1234", "\n1234"), ("Cafe\u{301}\n", "Caf\u{E9}"),
    ])
    func oneNewlineAtTheEndIsNotPartOfIt(_ contents: String, _ passcode: String) throws {
        #expect(Array(try text(.file(file(contents))).utf8) == Array(passcode.utf8))
        #expect(Array(try text(.value(contents)).utf8) == Array(passcode.utf8))
    }

    @Test func whatIsNoPasscode() throws {
        for contents in ["", "\n", "\r\n", String(repeating: "x", count: 1025)] {
            expectError(.invalidPasscode) { try text(.value(contents)) }
            expectError(.invalidPasscode) { try text(.file(file(contents))) }
        }
        #expect(try text(.value(String(repeating: "x", count: 1024))).count == 1024)
        expectError(.storageFailure) { try text(.file(folder + "/missing")) }
        expectError(.storageFailure) { try text(.file(folder)) }
        expectError(.invalidPasscode, "endless") { try text(.file("/dev/zero")) }
    }

    /// Kubernetes mounts secrets like this.
    @Test func symbolicLinksAreFollowed() throws {
        symlink(try file("1234\n"), "\(folder)/link")
        #expect(try text(.file("\(folder)/link")) == "1234")
    }

    @Test(arguments: [0o644, 0o640, 0o604, 0o620, 0o602, 0o444, 0o660] as [mode_t])
    func filesThatOthersCanUseAreRefused(_ mode: mode_t) throws {
        let path = try file("1234\n")
        chmod(path, mode)
        let link = "\(folder)/link"
        symlink(path, link)
        expectError(.unsafePermissions, saying: "its mode 0\(String(mode, radix: 8))") {
            try text(.file(path))
        }
        expectError(.unsafePermissions) { try text(.file(link)) }
        expectError(.unsafePermissions) { try DeviceKeySource.file(path).given() }
        chmod(path, 0o400)
        #expect(try text(.file(link)) == "1234", "the control")
    }

    @Test func pipesThatOthersCanUseAreRefused() throws {
        mkfifo("\(folder)/open", 0o600)
        chmod("\(folder)/open", 0o644)
        expectError(.unsafePermissions) { try text(.file("\(folder)/open")) }
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a file away"))
    func filesOfOthersAreRefused() throws {
        let path = try file("1234\n")
        chown(path, 65534, 0)
        expectError(.unsafePermissions, saying: "it belongs to user 65534") { try text(.file(path)) }
    }

    /// Kubernetes lets a user read it so who is not root.
    @Test(.enabled(if: geteuid() == 0, "only root can become somebody else"))
    func theGroupOfAFileOfRootsMayReadIt() async {
        await #expect(processExitsWith: .success) { try PasscodeSourceTests().readAsAnother(0o440) }
        await #expect(processExitsWith: .success) {
            let own = try PasscodeSourceTests()
            expectError(.unsafePermissions) { try own.readAsAnother(0o444) }
        }
        await #expect(processExitsWith: .success) {
            let own = try PasscodeSourceTests()
            expectError(.unsafePermissions) { try own.readAsAnother(0o460) }
        }
    }

    private func readAsAnother(_ mode: mode_t) throws {
        let path = try file("1234\n")
        chown(path, 0, 65534)
        chmod(folder, 0o755)
        chmod(path, mode)
        #expect(setgid(65534) == 0 && setuid(65534) == 0)
        #expect(try text(.file(path)) == "1234")
    }

    #if os(Linux)
        /// Whoever opened them for this program has decided who reads them.
        @Test func openDescriptorsAreNotHeldToThat() throws {
            let path = try file("1234\n")
            chmod(path, 0o644)
            for folder in ["/dev/fd", "/proc/self/fd"] {
                let descriptor = open(path, O_RDONLY)
                defer { close(descriptor) }
                #expect(try text(.file("\(folder)/\(descriptor)")) == "1234")
            }
        }
    #endif

    @Test func descriptors() throws {
        let pipe = Pipe()
        pipe.fileHandleForWriting.write(Data("12".utf8))
        pipe.fileHandleForWriting.write(Data("34\n".utf8))
        try pipe.fileHandleForWriting.close()
        #expect(try text(.fileDescriptor(pipe.fileHandleForReading.fileDescriptor)) == "1234")
        expectError(.storageFailure) { try text(.fileDescriptor(-1)) }
    }

    @Test func aTerminalIsNotWaitedFor() throws {
        let terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY)
        defer { close(terminal) }
        let start = ContinuousClock.now
        expectError(.invalidPasscode) { try text(.fileDescriptor(terminal)) }
        #expect(ContinuousClock.now - start < PasscodeSource.timeout / 2)
    }

    @Test func aPipeIsNotWaitedForForEver() throws {
        let silent = Pipe()
        let error = lockboxError {
            try SecretReader.descriptor(
                silent.fileHandleForReading.fileDescriptor,
                path: "pipe",
                maximum: 10,
                timeout: .milliseconds(20)
            )
        }
        #expect(error?.code == .invalidPasscode)
        try silent.fileHandleForWriting.close()

        mkfifo("\(folder)/fifo", 0o600)
        let descriptor = open("\(folder)/fifo", O_RDONLY | O_NONBLOCK)
        defer { close(descriptor) }
        #expect(
            lockboxError {
                try SecretReader.descriptor(descriptor, path: "fifo", maximum: 10, timeout: .milliseconds(20))
            }
                != nil
        )
    }

    @Test func environmentInItsOrder() async {
        await #expect(processExitsWith: .success) { try PasscodeSourceTests().readEnvironment() }
    }

    private func readEnvironment() throws {
        let path = try file("from the file\n")
        let credentials = "\(folder)/credentials"
        mkdir(credentials, 0o700)
        try overwrite("\(credentials)/lockbox-passcode", Array("from the credential".utf8))
        for name in ["LOCKBOX_PASSCODE_FILE", "CREDENTIALS_DIRECTORY", "LOCKBOX_PASSCODE"] { unsetenv(name) }
        for passcode in [PasscodeSource.standard, .credential()] {
            expectError(.invalidPasscode) { _ = try text(passcode) }
        }
        setenv("LOCKBOX_PASSCODE", "from the variable", 1)
        #expect(try text(.standard) == "from the variable")
        setenv("CREDENTIALS_DIRECTORY", "/nonexistent", 1)
        #expect(try text(.standard) == "from the variable")
        setenv("CREDENTIALS_DIRECTORY", credentials, 1)
        #expect(try text(.standard) == "from the credential")
        #expect(try text(.credential()) == "from the credential")
        // Some credentials can be read by all, as far as the mode says, but none written.
        chmod("\(credentials)/lockbox-passcode", 0o644)
        #expect(try text(.credential()) == "from the credential")
        chmod("\(credentials)/lockbox-passcode", 0o622)
        expectError(.unsafePermissions) { _ = try text(.credential()) }
        setenv("LOCKBOX_PASSCODE_FILE", path, 1)
        #expect(try text(.standard) == "from the file")
    }

    @Test("Promise 7: a passcode source does not print its passcode") func descriptionsAreEmpty() {
        let passcode = PasscodeSource.value("hunter2")
        var dumped = ""
        dump(passcode, to: &dumped)
        for text in ["\(passcode)", String(reflecting: passcode), dumped] {
            #expect(!text.contains("hunter2"))
        }
    }
}
