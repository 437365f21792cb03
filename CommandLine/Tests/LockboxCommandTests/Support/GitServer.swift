import Foundation

/// A web server with Basic authentication in front of git's own `http-backend`, on a port of its own.
final class GitServer: Sendable {
    let port: UInt16
    private let listener: CInt
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
        (listener, port) = try Self.listen()
        state.withLock { $0.password = password }
        let thread = Thread { [listener, weak self] in
            while case let connection = accept(listener, nil, nil), connection >= 0 {
                _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
                self?.serve(connection)
                close(connection)
            }
        }
        thread.start()
    }

    deinit { shutdown(listener, CInt(SHUT_RDWR)) }

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

    private static func listen() throws -> (CInt, UInt16) {
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        _ = fcntl(listener, F_SETFD, FD_CLOEXEC)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && Foundation.listen(listener, 16) == 0
                    && getsockname(listener, $0, &length) == 0
            }
        }
        guard isBound else { throw POSIXError(.EADDRNOTAVAIL) }
        return (listener, UInt16(bigEndian: address.sin_port))
    }

    // MARK: One request

    private func serve(_ connection: CInt) {
        guard let request = Request(connection) else { return }
        let right = "Basic " + Data("alice:\(password)".utf8).base64EncodedString()
        let given = request.headers["authorization"]
        guard given == right else {
            if given != nil { state.withLock { $0.refusals += 1 } }
            let answer =
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\n"
                + "Content-Length: 0\r\nConnection: close\r\n\r\n"
            return Self.send(Data(answer.utf8), to: connection)
        }
        guard let answer = try? run(request) else { return }
        Self.send(answer, to: connection)
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

    private static func send(_ data: Data, to connection: CInt) {
        data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) in
            var rest = bytes
            while !rest.isEmpty {
                let count = Foundation.send(connection, rest.baseAddress, rest.count, CInt(MSG_NOSIGNAL))
                if count <= 0 { return }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
        }
    }
}

/// A request of HTTP/1.1 with a body of known length, which is all that git sends for a clone.
private struct Request {
    let method: String
    let path: String
    let query: String
    let headers: [String: String]
    let body: Data

    init?(_ connection: CInt) {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 65536)
        func more() -> Bool {
            let count = recv(connection, &buffer, buffer.count, 0)
            if count > 0 { data.append(contentsOf: buffer[..<count]) }
            return count > 0
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
