import Foundation

/// A web server with Basic authentication in front of git's own `http-backend`, on a port of its own.
final class GitServer: Sendable {
    private let port: Int
    private let listener: TCPSocket
    private let repositories: String
    private let backend: String
    private let state = State()

    /// - Parameters:
    ///   - repositories: The folder with the bare repositories.
    ///   - password: Alice's.
    init(repositories: String, password: String) throws {
        self.repositories = repositories
        let folder = try Execution(
            executable: "/usr/bin/env",
            arguments: ["git", "--exec-path"],
            environment: ProcessInfo.processInfo.environment
        ).run().output.trimmingCharacters(in: .whitespacesAndNewlines)
        backend = "\(folder)/git-http-backend"
        port = try TCPSocket.freePorts()
        listener = try TCPSocket(listeningOn: port)
        state.withLock { $0.password = password }
        listener.acceptConnections { [weak self] in self?.serve($0) }
    }

    deinit { listener.shutDown() }

    var address: String { "http://127.0.0.1:\(port)" }
    var password: String {
        get { state.withLock { $0.password } }
        set { state.withLock { $0.password = newValue } }
    }
    /// How many requests came with a name and a password that were not right.
    var refusals: Int { state.withLock { $0.refusals } }

    private final class State: @unchecked Sendable {
        // Unchecked, as the value is touched under the lock only.
        private let lock = NSLock()
        private var value = (password: "", refusals: 0)

        func withLock<Result>(_ body: (inout (password: String, refusals: Int)) -> Result) -> Result {
            lock.withLock { body(&value) }
        }
    }

    // MARK: One request

    private func serve(_ connection: TCPSocket) {
        guard let request = Request(connection) else { return }
        let right = "Basic " + Data("alice:\(password)".utf8).base64EncodedString()
        let given = request.headers["authorization"]
        guard given == right else {
            if given != nil { state.withLock { $0.refusals += 1 } }
            let answer =
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\n"
                + "Content-Length: 0\r\nConnection: close\r\n\r\n"
            connection.write(answer.utf8)
            return
        }
        if let answer = try? run(request) { connection.write(answer) }
    }

    /// As a web server runs a CGI program.
    private func run(_ request: Request) throws -> Data {
        var execution = Execution(
            executable: backend,
            arguments: [],
            environment: [
                "GIT_PROJECT_ROOT": repositories, "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": request.method,
                "PATH_INFO": request.path, "QUERY_STRING": request.query, "REMOTE_USER": "alice",
                "REMOTE_ADDR": "127.0.0.1",
                "CONTENT_TYPE": request.headers["content-type"] ?? "",
                "CONTENT_LENGTH": "\(request.body.count)",
                "HTTP_CONTENT_ENCODING": request.headers["content-encoding"] ?? "",
                "GIT_PROTOCOL": request.headers["git-protocol"] ?? "", "HOME": repositories,
                "GIT_CONFIG_NOSYSTEM": "1",
                "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin",
            ]
        )
        execution.input = request.body
        let answer = try execution.run().bytes
        let status = answer.starts(with: Data("Status: ".utf8)) ? "404 Not Found" : "200 OK"
        return Data("HTTP/1.1 \(status)\r\nConnection: close\r\n".utf8) + answer
    }
}

/// A request of HTTP/1.1 with a body of known length, which is all that git sends for a clone.
private struct Request {
    let method: String
    let path: String
    let query: String
    let headers: [String: String]
    let body: Data

    init?(_ connection: TCPSocket) {
        var data = Data()
        func more() -> Bool {
            guard let bytes = connection.read() else { return false }
            data += bytes
            return true
        }
        var end: Range<Data.Index>?
        while end == nil {
            guard more() else { return nil }
            end = data.range(of: Data("\r\n\r\n".utf8))
        }
        let lines = String(decoding: data[..<end!.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].split(separator: " ").map(String.init)
        guard words.count == 3 else { return nil }
        method = words[0]
        let target = words[1].split(separator: "?", maxSplits: 1).map(String.init)
        path = target[0]
        query = target.count > 1 ? target[1] : ""
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            headers[line[..<colon].lowercased()] = line[line.index(after: colon)...].trimmingCharacters(
                in: .whitespaces
            )
        }
        self.headers = headers
        let length = headers["content-length"].flatMap { Int($0) } ?? 0
        while data.count - end!.upperBound < length { guard more() else { return nil } }
        body = data[end!.upperBound...].prefix(length)
    }
}
