import Foundation

/// A process that runs until this object is gone or this process has ended, however that ends.
final class KeptProcess: @unchecked Sendable {
    // Unchecked: nothing changes after `init`.

    private let process = Process()
    private let input = Pipe()
    private let log: String

    /// - Parameter log: The file that gets what it prints.
    init(_ command: [String], environment: [String: String], log: String) throws {
        self.log = log
        process.executableURL = URL(filePath: "/bin/sh")
        // The shell waits for the end of its input, which this process holds open.
        let script = #"log=$1; shift; "$@" >"$log" 2>&1 </dev/null & read _; kill -9 $! 2>/dev/null; wait"#
        process.arguments = ["-c", script, "sh", log] + command
        process.environment = environment
        process.standardInput = input
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        try process.run()
    }

    deinit { end() }

    /// Kills it, and waits until it has ended.
    func end() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    var text: String { (try? String(contentsOfFile: log, encoding: .utf8)) ?? "" }

    /// Waits for a text in what it prints.
    ///
    /// - Parameter start: How much of the text was there before.
    /// - Returns: The rest of the line after the text.
    @discardableResult
    func wait(for expected: String, after start: Int = 0) async throws -> Substring {
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            let text = text.dropFirst(start)
            if let found = text.range(of: expected), let end = text[found.upperBound...].firstIndex(of: "\n")
            {
                return text[found.upperBound..<end]
            }
            try await Task.sleep(for: .milliseconds(5))
        }
        throw Failure("it has not printed \"\(expected)\" but: \(text)")
    }
}

/// An example's program that the build has put beside the tests.
func example(_ name: String) -> String {
    URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
        .deletingLastPathComponent().appending(path: name).path()
}

/// Runs a program to its end.
///
/// - Returns: Its exit status, and what it printed.
func run(_ command: [String], environment: [String: String], input: String = "") async throws
    -> (status: Int32, output: String)
{
    let process = Process()
    process.executableURL = URL(filePath: command[0])
    process.arguments = Array(command.dropFirst())
    process.environment = environment
    let (standardInput, output) = (Pipe(), Pipe())
    process.standardInput = standardInput
    process.standardOutput = output
    process.standardError = output
    try process.run()
    try standardInput.fileHandleForWriting.write(contentsOf: Data(input.utf8))
    try standardInput.fileHandleForWriting.close()
    return await withCheckedContinuation { continuation in
        Thread {
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            continuation.resume(returning: (process.terminationStatus, text))
        }.start()
    }
}
