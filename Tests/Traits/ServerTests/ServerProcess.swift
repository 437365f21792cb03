import Foundation
import Synchronization

/// A process that runs until this object is gone or this process has ended, however that ends.
final class KeptProcess: @unchecked Sendable {
    // Unchecked: nothing changes after `init`.

    private let process = Process()
    private let input: Pipe
    private let log: String

    /// - Parameter log: The file that gets what it prints.
    init(_ command: [String], environment: [String: String], log: String) throws {
        self.log = log
        process.executableURL = URL(filePath: "/bin/sh")
        // The shell waits for the end of its input, which this process holds open, and then for the last thread, whose end
        // frees the port. Not with wait(1), which needs SIGCHLD: that is blocked in the threads of Swift's tests.
        let script = #"""
            log=$1; shift
            "$@" >"$log" 2>&1 </dev/null &
            read _
            kill -9 $! 2>/dev/null
            until [ ! -e /proc/$! ] || { grep -q ') Z ' /proc/$!/stat && [ /proc/$!/task/* = /proc/$!/task/$! ]; }; do
                sleep 0.01
            done 2>/dev/null
            """#
        process.arguments = ["-c", script, "sh", log] + command
        process.environment = environment
        input = try begin(process, readingOutput: false).input
    }

    deinit { end() }

    /// Kills it, and waits until it has ended.
    func end() {
        try? input.fileHandleForWriting.close()
        process.waitUntilExit()
    }

    /// The same, in a thread of its own: others that test go on.
    func endInBackground() async {
        await withCheckedContinuation { continuation in
            Thread {
                self.end()
                continuation.resume()
            }.start()
        }
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

/// One process is started at a time: otherwise it could inherit the pipes of another one, and hold them open.
private let starting = Mutex(())

/// Starts a process whose pipes no other process has.
private func begin(_ process: Process, readingOutput: Bool) throws -> (input: Pipe, output: Pipe) {
    try starting.withLock { _ in
        let (input, output) = (Pipe(), Pipe())
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        _ = fcntl(output.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        process.standardInput = input
        if readingOutput { (process.standardOutput, process.standardError) = (output, output) }
        try process.run()
        return (input, output)
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
    let (standardInput, output) = try begin(process, readingOutput: true)
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
