#if Etcd
    import Foundation

    import LockboxCore

    /// A server between a storage and etcd that loses requests or answers of transactions with a write.
    final class Relay: Sendable {
        enum Loss: String, Sendable {
            /// A request is delivered, and the connection ends in the middle of the answer.
            case answer
            /// The same before the answer. If the connection was in use before, libcurl itself sends the request again.
            case second
            /// One request is kept, and never answered. Others pass.
            case request
            /// The same with all requests.
            case requests
        }

        private struct State: Sendable {
            var loss: Loss?
            var losses = 0
            var requests = 0
            var connections = 0
            var kept: [Data] = []
        }

        private let listener: CInt
        private let port: Int
        private let server: Int
        private let state = Protected(State())

        init(to server: Int) throws {
            self.server = server
            port = try freePort()
            listener = try listening(port)
            try detachThread { [self] in
                while true {
                    let client = accept(listener, nil, nil)
                    if client < 0 { return }
                    state.withLock { $0.connections += 1 }
                    try? detachThread { [self] in
                        serve(client)
                        close(client)
                    }
                }
            }
        }

        deinit { close(listener) }

        var endpoint: String { "http://127.0.0.1:\(port)" }
        /// How many it has received.
        var requests: Int { state.withLock { $0.requests } }
        var connections: Int { state.withLock { $0.connections } }
        var losses: Int { state.withLock { $0.losses } }
        func lose(_ loss: Loss) { state.withLock { $0.loss = loss } }
        func pass() { state.withLock { $0.loss = nil } }

        /// Delivers what was kept, and returns how many requests that were.
        func deliverLost() -> Int {
            let kept = state.withLock { state in
                defer { state.kept = [] }
                return state.kept
            }
            for request in kept { _ = forward(request) }
            return kept.count
        }

        private func serve(_ client: CInt) {
            while let request = message(client) {
                state.withLock { $0.requests += 1 }
                switch loss(of: request) {
                case nil:
                    guard let answer = forward(request) else { return }
                    send(client, answer)
                case .answer:
                    _ = forward(request)
                    send(client, Data("HTTP/1.1 200 OK\r\nContent-Le".utf8))
                    return
                case .second:
                    _ = forward(request)
                    return
                case .request, .requests:
                    state.withLock { $0.kept.append(request) }
                    usleep(300_000)
                    return
                }
            }
        }

        /// Of those that write a record. Reads, and what a fence does, pass.
        private func loss(of request: Data) -> Loss? {
            state.withLock { state in
                guard let loss = state.loss else { return nil }
                if loss == .requests { state.losses += 1 }
                let isCommit = request.range(of: Data("request_put".utf8)) != nil
                if loss != .requests, !isCommit { return nil }
                if loss != .requests {
                    state.losses += 1
                    state.loss = nil
                }
                return loss
            }
        }

        private func forward(_ request: Data) -> Data? {
            guard let descriptor = try? connected(server) else { return nil }
            defer { close(descriptor) }
            send(descriptor, request)
            return message(descriptor)
        }
    }

    // MARK: Sockets

    private func address(_ port: Int) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    private func with(_ port: Int, _ call: (UnsafePointer<sockaddr>, socklen_t) -> CInt) throws {
        var address = address(port)
        let result = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                call($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard result == 0 else { throw CocoaError(.fileReadUnknown) }
    }

    private func listening(_ port: Int) throws -> CInt {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try with(port) { bind(descriptor, $0, $1) }
        guard listen(descriptor, 16) == 0 else { throw CocoaError(.fileReadUnknown) }
        return descriptor
    }

    private func connected(_ port: Int) throws -> CInt {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try with(port) { connect(descriptor, $0, $1) }
        return descriptor
    }

    private func send(_ descriptor: CInt, _ bytes: Data) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            if count <= 0 { return }
            rest = rest.dropFirst(count)
        }
    }

    /// A whole request or answer of HTTP, or nil if there is no more. Long answers of etcd come in chunks, the others state their
    /// length.
    private func message(_ descriptor: CInt) -> Data? {
        var bytes = Data()
        while true {
            if let end = bytes.range(of: Data("\r\n\r\n".utf8)) {
                let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).lowercased()
                if head.contains("transfer-encoding: chunked") {
                    if bytes.suffix(7) == Data("\r\n0\r\n\r\n".utf8) { return bytes }
                    guard receive(descriptor, &bytes) else { return nil }
                    continue
                }
                let field = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
                let length = field.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
                if bytes.count >= end.upperBound + length { return bytes }
            }
            guard receive(descriptor, &bytes) else { return nil }
        }
    }

    /// Appends what has arrived. Returns false if nothing more will.
    private func receive(_ descriptor: CInt, _ bytes: inout Data) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count > 0 { bytes.append(contentsOf: buffer[..<count]) }
        return count > 0
    }
#endif
