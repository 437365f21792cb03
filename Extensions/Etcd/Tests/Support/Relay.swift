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

        private let listener: TCPSocket
        private let port: Int
        private let server: Int
        private let state = Protected(State())

        init(to server: Int) throws {
            self.server = server
            port = try TCPSocket.freePorts()
            listener = try TCPSocket(listeningOn: port)
            listener.acceptConnections { [self] client in
                state.withLock { $0.connections += 1 }
                serve(client)
            }
        }

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

        private func serve(_ client: TCPSocket) {
            while let request = client.message() {
                state.withLock { $0.requests += 1 }
                switch loss(of: request) {
                case nil:
                    guard let answer = forward(request) else { return }
                    client.write(answer)
                case .answer:
                    _ = forward(request)
                    client.write("HTTP/1.1 200 OK\r\nContent-Le".utf8)
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
            guard let connection = TCPSocket(connectingTo: server) else { return nil }
            connection.write(request)
            return connection.message()
        }
    }
#endif
