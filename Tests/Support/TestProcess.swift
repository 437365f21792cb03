import Foundation
import Testing

/// An executable of the package, which the build puts beside the tests.
final class TestProcess {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()

    convenience init(_ arguments: String...) throws { try self.init(arguments) }

    init(
        _ arguments: [String],
        of executable: String = "LockboxTestProcess",
        environment: [String: String] = [:]
    ) throws {
        let folder = URL(fileURLWithPath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent()
        process.executableURL = folder.appendingPathComponent(executable)
        process.arguments = arguments
        // Swift's own backtraces can hang after a crash.
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) {
            $1
        }.merging(environment) { $1 }
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    var processIdentifier: Int32 { process.processIdentifier }

    /// Waits until the process has written something.
    func waitForOutput() { _ = output.fileHandleForReading.availableData }

    /// Everything that the process writes until it closes its output.
    func allOutput() -> String {
        String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    }

    func endInput() { try? input.fileHandleForWriting.close() }

    /// The exit status; minus the signal's number if it died of one.
    func wait() -> Int32 {
        endInput()
        process.waitUntilExit()
        return process.terminationReason == .uncaughtSignal
            ? -process.terminationStatus : process.terminationStatus
    }

    /// Until it is killed or continued.
    func stop() {
        Foundation.kill(process.processIdentifier, SIGSTOP)
        var status = ""
        while !status.contains(") T ") {
            status =
                (try? String(contentsOfFile: "/proc/\(process.processIdentifier)/stat", encoding: .utf8))
                ?? ") T "
        }
    }

    func kill() { Foundation.kill(process.processIdentifier, SIGKILL) }
}
