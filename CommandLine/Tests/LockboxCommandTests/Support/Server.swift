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
        let port = freePorts()
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        guard with(port, { bind(listener, $0, $1) }) == 0, listen(listener, 16) == 0 else {
            throw CocoaError(.fileReadUnknown)
        }
        let length = text.utf8.count
        let answer = Data(
            "HTTP/1.1 \(status)\r\nContent-Length: \(length)\r\nConnection: close\r\n\r\n\(text)".utf8
        )
        Thread.detachNewThread {
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 { return }
                var buffer = [UInt8](repeating: 0, count: 65_536)
                // Requests are short, and come in one piece.
                _ = recv(client, &buffer, buffer.count, 0)
                _ = answer.withUnsafeBytes { send(client, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
                close(client)
            }
        }
        return port
    }

    /// Where a program is, or nil.
    static func path(of program: String) -> String? {
        (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
            .map { "\($0)/\(program)" }.first { access($0, X_OK) == 0 }
    }

    /// Two ports, one after the other, that nobody listens on. Another program could take them, which nothing prevents.
    static func freePorts() -> Int {
        while true {
            let port = Int.random(in: 20_000..<31_999)
            if !answers(port), !answers(port + 1) { return port }
        }
    }

    /// Whether somebody listens on a port of this machine.
    static func answers(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        return with(port) { connect(descriptor, $0, $1) } == 0
    }

    private static func with(_ port: Int, _ call: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                call($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    static func waitUntilAnswering(_ port: Int) -> Bool { wait { answers(port) } }

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
