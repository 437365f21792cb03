// The part of HTTP/1.1 that the examples need, on POSIX sockets: one request for each connection, on this machine. Your service
// has a server already.

import Foundation

package struct Request: Sendable {
    package var method: String
    package var path: String
    /// The text after `Bearer` in the field `Authorization`.
    package var token: String?
    package var body: String

    package init(_ method: String, _ path: String, token: String? = nil, body: String = "") {
        (self.method, self.path, self.token, self.body) = (method, path, token, body)
    }
}

package struct Response: Sendable {
    package var status: Int
    package var body: String

    package init(_ status: Int, _ body: String = "") { (self.status, self.body) = (status, body) }
}

package enum ExchangeError: Error {
    /// The server has received nothing.
    case notSent
    /// The server may have done what it was asked.
    case noAnswer
}

package struct Server: Sendable {
    package let port: Int
    private let listener: CInt

    /// Listens on a free port of the loopback interface.
    package init() throws {
        signal(SIGPIPE, SIG_IGN)  // A client that has gone ends its connection, not the server.
        let listener = streamSocket()
        var address = loopback(port: 0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                [bind(listener, $0, length), listen(listener, 64), getsockname(listener, $0, &length)]
            }
        }
        guard result == [0, 0, 0] else { throw ExchangeError.notSent }
        self.listener = listener
        port = Int(UInt16(bigEndian: address.sin_port))
    }

    /// Answers requests, each on a thread of its own, so that no task waits for the network.
    package func start(_ answer: @escaping @Sendable (Request) async -> Response) {
        Thread.detachNewThread {
            while true {
                let client = accept(listener, nil, nil)
                if client >= 0 { Thread.detachNewThread { serve(client, answer) } }
            }
        }
    }

    private func serve(_ client: CInt, _ answer: @escaping @Sendable (Request) async -> Response) {
        defer { close(client) }
        setTimeLimit(client, seconds: 30)
        guard let message = receive(client), let request = Request(message) else { return }
        let isDone = DispatchSemaphore(value: 0)
        Task {
            let response = await answer(request)
            _ = transmit(client, message: "HTTP/1.1 \(response.status) -", [], response.body)
            isDone.signal()
        }
        isDone.wait()
    }
}

/// - Throws: ``ExchangeError``.
package func exchange(_ request: Request, port: Int, seconds: Int = 20) async throws -> Response {
    signal(SIGPIPE, SIG_IGN)
    return try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread {
            continuation.resume(with: Result { try exchangeHere(request, port, seconds) })
        }
    }
}

private func exchangeHere(_ request: Request, _ port: Int, _ seconds: Int) throws -> Response {
    let server = streamSocket()
    defer { close(server) }
    setTimeLimit(server, seconds: seconds)
    var address = loopback(port: port)
    let isConnected = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
    guard isConnected else { throw ExchangeError.notSent }
    let fields = request.token.map { ["Authorization: Bearer \($0)"] } ?? []
    guard transmit(server, message: "\(request.method) \(request.path) HTTP/1.1", fields, request.body),
        let message = receive(server)
    else { throw ExchangeError.noAnswer }
    let words = message.head[0].split(separator: " ")
    guard words.count > 1, let status = Int(words[1]) else { throw ExchangeError.noAnswer }
    return Response(status, message.body)
}

// MARK: Messages

private typealias Message = (head: [Substring], body: String)

extension Request {
    fileprivate init?(_ message: Message) {
        let words = message.head[0].split(separator: " ")
        guard words.count == 3 else { return nil }
        let token = field("authorization", of: message.head).map { $0.dropFirst("Bearer ".count) }
        self.init(String(words[0]), String(words[1]), token: token.map(String.init), body: message.body)
    }
}

private func field(_ name: String, of head: [Substring]) -> String? {
    let line = head.dropFirst().first { $0.lowercased().hasPrefix("\(name):") }
    return line.map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
}

private func transmit(_ socket: CInt, message first: String, _ fields: [String], _ body: String) -> Bool {
    let head =
        [first, "Host: 127.0.0.1", "Content-Length: \(body.utf8.count)", "Connection: close"] + fields
    var rest = Array((head.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { write(socket, $0.baseAddress, $0.count) }
        guard count > 0 else { return false }
        rest = rest.dropFirst(count)
    }
    return true
}

/// Returns nil if the connection ends before the message does, or the message is longer than 64 KiB.
private func receive(_ socket: CInt) -> Message? {
    var bytes = Data()
    var buffer = [UInt8](repeating: 0, count: 4096)
    while bytes.count < 1 << 16 {
        if let end = bytes.range(of: Data("\r\n\r\n".utf8)) {
            let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).split(separator: "\r\n")
            let body = bytes[end.upperBound...]
            guard !head.isEmpty, let length = Int(field("content-length", of: head) ?? "0") else {
                return nil
            }
            if body.count >= length { return (head, String(decoding: body.prefix(length), as: UTF8.self)) }
        }
        let count = read(socket, &buffer, buffer.count)
        guard count > 0 else { return nil }
        bytes.append(contentsOf: buffer[..<count])
    }
    return nil
}

// MARK: Sockets

private func loopback(port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return address
}

private func setTimeLimit(_ socket: CInt, seconds: Int) {
    var limit = timeval(tv_sec: seconds, tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        setsockopt(socket, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
    }
}
