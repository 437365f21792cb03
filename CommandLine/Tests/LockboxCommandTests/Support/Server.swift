import Foundation

/// A server for one test, which ends with the test, however that ends.
final class Server {
    private let keeper = Process()
    private let input = Pipe()
    private let id: pid_t

    /// One is started at a time: otherwise it could inherit the input of another one's shell, and hold it open.
    private static let starting = NSLock()

    /// - Parameters:
    ///   - command: The program and its arguments.
    ///   - log: Where its output goes.
    init(_ command: [String], log: String) throws {
        keeper.executableURL = URL(fileURLWithPath: "/bin/sh")
        // The shell waits for the end of its input, which this process holds open.
        let script =
            #"log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!; read _; kill -9 $! 2>/dev/null"#
        keeper.arguments = ["-c", script, "sh", log] + command
        keeper.standardInput = input
        let output = Pipe()
        keeper.standardOutput = output
        keeper.standardError = FileHandle.nullDevice
        _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        let keeper = keeper
        try Self.starting.withLock { try keeper.run() }
        let text = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let id = pid_t(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw CocoaError(.executableLoad)
        }
        self.id = id
    }

    deinit {
        _ = kill(id, SIGKILL)
        _ = kill(keeper.processIdentifier, SIGKILL)
    }

    /// Answers every request with the same status and text. Returns its port. Lasts as long as this process.
    static func answering(_ status: String, _ text: String) throws -> Int {
        let port = try TCPSocket.freePorts()
        let answer =
            "HTTP/1.1 \(status)\r\nContent-Length: \(text.utf8.count)\r\nConnection: close\r\n\r\n\(text)"
        try TCPSocket(listeningOn: port).acceptConnections { client in
            // Requests are short, and come in one piece.
            if client.read() != nil { client.write(answer.utf8) }
        }
        return port
    }

    /// Where a program is, or nil.
    static func path(of program: String) -> String? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
            .map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }

    static func waitUntilAnswering(_ port: Int) -> Bool { wait { TCPSocket(connectingTo: port) != nil } }

    /// Returns whether it is so within half a minute.
    static func wait(until isSo: () -> Bool) -> Bool {
        for _ in 0..<3000 {
            if isSo() { return true }
            usleep(10_000)
        }
        return false
    }
}

extension Sandbox {
    /// The second executable, if the first one was installed with it.
    static let extended: String? = {
        let path = URL(fileURLWithPath: executable).resolvingSymlinksInPath()
            .deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("libexec/lockbox-extended").path
        return access(path, X_OK) == 0 ? path : nil
    }()

    static let hasClusters = extended != nil && Server.path(of: "etcd") != nil
    static let hasTPM = extended != nil && Server.path(of: "swtpm") != nil
}
