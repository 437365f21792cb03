import Foundation
import Lockbox
import Testing

/// A home of its own for one test, with a store that is not there yet; removed when the test is done with it.
final class Sandbox {
    let home: String
    var store: String { "\(home)/store" }
    var environment: [String: String]

    init() throws {
        home = NSTemporaryDirectory() + "lockbox-command-\(UInt64.random(in: .min ... .max))"
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        environment = [
            "HOME": home, "PATH": path, "LOCKBOX_DIRECTORY": "\(home)/store", "TERM": "xterm", "TZ": "UTC",
            "SWIFT_BACKTRACE": "enable=no",
        ]
    }

    deinit { try? FileManager.default.removeItem(atPath: home) }

    /// The executable `lockbox`: the one named by `LOCKBOX_COMMAND`, or else the one that the build puts beside the tests.
    static let executable =
        ProcessInfo.processInfo.environment["LOCKBOX_COMMAND"]
        ?? besideTests("lockbox")

    /// An executable that the build puts beside the tests.
    static func besideTests(_ name: String) -> String {
        URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent(name).path
    }

    /// `lockbox` without a terminal.
    @discardableResult
    func lockbox(_ arguments: String..., input: Data = Data()) throws -> Outcome {
        var execution = execution(arguments)
        execution.input = input
        return try execution.run()
    }

    @discardableResult
    func lockbox(_ arguments: String..., text: String) throws -> Outcome {
        var execution = execution(arguments)
        execution.input = Data(text.utf8)
        return try execution.run()
    }

    /// `lockbox` as somebody uses it who sits at a terminal.
    @discardableResult
    func lockbox(_ arguments: String..., typing answers: [Execution.Answer]) throws -> Outcome {
        try lockbox(arguments, typing: answers)
    }

    func lockbox(_ arguments: [String], typing answers: [Execution.Answer]) throws -> Outcome {
        var execution = execution(arguments)
        execution.terminal = [0, 1, 2]
        execution.answers = answers
        return try execution.run()
    }

    func execution(_ arguments: [String], executable: String = Sandbox.executable) -> Execution {
        Execution(executable: executable, arguments: arguments, environment: environment)
    }

    /// The same store through the library.
    func library(_ prefix: String = "lockbox") throws -> Lockbox {
        try Lockbox(keyPrefix: prefix, backend: EncryptedFileBackend(directory: store))
    }

    /// Gives the store a passcode.
    ///
    /// - Parameter name: Of a file with the passcode.
    /// - Returns: The file's path.
    @discardableResult
    func setPasscode(
        _ passcode: String = "correct horse",
        inFile name: String = "passcode",
        _ options: String...
    ) throws -> String {
        let passcode = try file(name, "\(passcode)\n")
        let arguments = [
            "passcode", "set", "--quiet", "--new-passcode-file", passcode, "--strength", "interactive",
        ]
        let outcome = try execution(arguments + options).run()
        try #require(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
        return passcode
    }

    /// Makes a recovery code as a script does, in a store with one item.
    ///
    /// - Parameter passcode: A file with the passcode.
    /// - Returns: A file with the code.
    func recoveryCode(_ options: [String] = [], passcode: String) throws -> String {
        let file = "\(home)/code"
        let script = """
            umask 077
            mkfifo "$HOME/out" "$HOME/in"
            \(Sandbox.executable) passcode recovery --output-fd 3 --confirm-file "$HOME/in" "$@" 3>"$HOME/out" &
            cat "$HOME/out" >"$HOME/code"
            cat "$HOME/code" >"$HOME/in"
            wait $!
            """
        let outcome = try execution(
            ["-c", script, "sh", "--passcode-file", passcode] + options,
            executable: "/bin/sh"
        ).run()
        try #require(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.output == "items resealed: 1\nThe recovery code unlocks the store from now on.\n")
        let code = try String(contentsOfFile: file, encoding: .utf8)
        #expect(code.wholeMatch(of: /([0-9A-Z]{4}-){6}[0-9A-Z]{4}\n/) != nil)
        #expect(!outcome.output.contains(code.dropLast()) && !outcome.error.contains(code.dropLast()))
        return file
    }

    /// What is in a file.
    func text(_ path: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
    }

    /// Makes a file that nobody else can use, as one with a secret must be.
    func file(_ name: String, _ contents: String) throws -> String {
        let path = "\(home)/\(name)"
        try Data(contents.utf8).write(to: URL(fileURLWithPath: path))
        try #require(chmod(path, 0o600) == 0)
        return path
    }
}
