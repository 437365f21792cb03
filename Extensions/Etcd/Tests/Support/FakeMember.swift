#if Etcd
    import Foundation

    import LockboxCore

    /// A server that answers as a test wants it to, and not as etcd does.
    final class FakeMember: Sendable {
        struct Answer: Sendable {
            var status = "200 OK"
            /// Its lines.
            var lines: [String]
            /// Further lines of its head.
            var head: [String] = []
            /// The part that follows them, again and again for as long as it is read.
            var endless: (head: String, body: String) = ("", "")
            /// How long the connection stays after them, in milliseconds.
            var milliseconds: UInt32 = 0
        }

        private let listener: TCPSocket
        private let port: Int
        private let paths = Protected<[String]>([])

        /// - Parameter answer: Receives the path of a request and its body.
        init(_ answer: @escaping @Sendable (String, String) -> Answer) throws {
            port = try TCPSocket.freePorts()
            listener = try TCPSocket(listeningOn: port)
            listener.acceptConnections { [self] client in
                if let request = client.message() { serve(client, request, answer) }
            }
        }

        /// Ends the thread that accepts connections.
        func end() { listener.shutDown() }

        var endpoint: String { "http://127.0.0.1:\(port)" }

        /// How many requests of a path it has received, and decided on.
        func requests(of path: String) -> Int { paths.withLock { $0.count { $0 == path } } }

        private func serve(_ client: TCPSocket, _ request: Data, _ answer: (String, String) -> Answer) {
            let text = String(decoding: request, as: UTF8.self)
            let path = text.split(separator: " ").dropFirst().first.map(String.init) ?? ""
            let body = text.range(of: "\r\n\r\n").map { String(text[$0.upperBound...]) } ?? ""
            let answer = answer(path, body)
            // After the closure, so that a test which waits for the number sees what the closure did.
            paths.withLock { $0.append(path) }
            // Without a length, it ends where the connection does.
            let head = (["HTTP/1.1 \(answer.status)", "Connection: close"] + answer.head).joined(
                separator: "\r\n"
            )
            client.write("\(head)\r\n".utf8)
            repeatedly(answer.endless.head, client)
            client.write("\r\n".utf8)
            for line in answer.lines { client.write("\(line)\n".utf8) }
            repeatedly(answer.endless.body, client)
            usleep(answer.milliseconds * 1000)
        }

        /// Some kilobytes at a time, until the client is gone.
        private func repeatedly(_ text: String, _ client: TCPSocket) {
            if text.isEmpty { return }
            let bytes = Array(String(repeating: text, count: 1 + 65_536 / text.utf8.count).utf8)
            while client.write(bytes) {}
        }
    }
#endif
