#if SecretService
    import Foundation
    import LockboxStore
    import LockboxTesting

    @testable import LockboxSecretService

    /// A service that runs in a thread until the instance is gone.
    final class Service: Sendable {
        let store: SealedBackend
        let socket: SecretServiceSocket
        private let end: CInt

        init(store: SealedBackend = .inMemory()) throws {
            self.store = store
            socket = try SecretServiceSocket.temporary()
            var ends: [CInt] = [-1, -1]
            guard pipe(&ends) == 0 else { throw POSIXError(.EMFILE) }
            end = ends[1]
            let (server, socket, stop) = (SecretServiceServer(store: store), socket, ends[0])
            let thread = Thread {
                defer { close(stop) }
                do { try server.serve(socket, until: stop) { true } } catch { fatalError("\(error)") }
            }
            thread.start()
        }

        deinit {
            close(end)
            socket.remove()
        }

        func client() throws -> Client { try Client(socket.path) }
    }

    /// A client that sends any bytes.
    final class Client {
        private let file: CInt
        private var serial: UInt32 = 0
        private var buffer: [UInt8] = []

        init(_ path: String) throws {
            file = Foundation.socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            let result = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(file, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            guard result == 0 else { throw POSIXError(.ECONNREFUSED) }
            // Long enough for a busy machine. Nothing here waits for its end.
            var limit = timeval(tv_sec: 60, tv_usec: 0)
            setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
            setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        }

        deinit { close(file) }

        /// Returns whether all of it was taken.
        @discardableResult
        func send(_ bytes: [UInt8]) -> Bool {
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    Foundation.send(file, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
                }
                if count <= 0 { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }

        @discardableResult func send(_ text: String) -> Bool { send(Array(text.utf8)) }

        /// Returns exactly so many bytes, or nil at the end of the connection.
        func receive(_ count: Int) -> [UInt8]? {
            while buffer.count < count {
                var more = [UInt8](repeating: 0, count: 65_536)
                let received = recv(file, &more, more.count, 0)
                if received <= 0 { return nil }
                buffer += more.prefix(received)
            }
            defer { buffer.removeFirst(count) }
            return Array(buffer.prefix(count))
        }

        func line() -> String? {
            var line: [UInt8] = []
            while let byte = receive(1) {
                line += byte
                if line.suffix(2) == [13, 10] { return String(decoding: line.dropLast(2), as: UTF8.self) }
            }
            return nil
        }

        /// Whether the service closes the connection, whatever it has sent before.
        var isClosed: Bool {
            errno = 0
            while receive(1) != nil {}
            return errno != EAGAIN
        }

        // MARK: Messages

        func authenticate() -> Bool {
            send("\0AUTH EXTERNAL 30\r\n")
            guard line()?.hasPrefix("OK ") == true else { return false }
            return send("BEGIN\r\n")
        }

        func hello() -> Bool {
            authenticate() && call("/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello")?.type == 2
        }

        struct Reply {
            /// 2 for an answer, 3 for an error.
            let type: UInt8
            let header: [UInt8]
            let body: [UInt8]

            var error: String? { type == 3 ? String(decoding: header, as: UTF8.self) : nil }
        }

        /// Sends a call, and returns the answer to it.
        func call(
            _ path: String,
            _ interface: String,
            _ member: String,
            _ signature: String = "",
            _ body: [UInt8] = []
        )
            -> Reply?
        {
            send(message(path, interface, member, signature, body)) ? reply() : nil
        }

        func reply() -> Reply? {
            guard let start = receive(16) else { return nil }
            let (length, fields) = (Self.number(start[4..<8]), Self.number(start[12..<16]))
            guard let header = receive((fields + 7) / 8 * 8), let body = receive(length) else { return nil }
            return start[1] == 4 ? reply() : Reply(type: start[1], header: header, body: body)
        }

        func message(
            _ path: String,
            _ interface: String,
            _ member: String,
            _ signature: String = "",
            _ body: [UInt8] = []
        ) -> [UInt8] {
            serial += 1
            var fields: [UInt8] = []
            for (code, type, text) in [(1, "o", path), (2, "s", interface), (3, "s", member)] {
                Self.pad(&fields, to: 8)
                fields += [UInt8(code), 1] + Array(type.utf8) + [0] + Self.text(text)
            }
            if !signature.isEmpty {
                Self.pad(&fields, to: 8)
                fields +=
                    [8, 1, UInt8(ascii: "g"), 0, UInt8(signature.utf8.count)] + Array(signature.utf8) + [0]
            }
            var bytes: [UInt8] = [UInt8(ascii: "l"), 1, 0, 1]
            bytes += Self.bytes(body.count) + Self.bytes(Int(serial)) + Self.bytes(fields.count) + fields
            Self.pad(&bytes, to: 8)
            return bytes + body
        }

        static func text(_ text: String) -> [UInt8] { bytes(text.utf8.count) + Array(text.utf8) + [0] }

        static func bytes(_ number: Int) -> [UInt8] { (0..<4).map { UInt8(number >> (8 * $0) & 255) } }

        static func pad(_ bytes: inout [UInt8], to length: Int) {
            while !bytes.count.isMultiple(of: length) { bytes.append(0) }
        }

        private static func number(_ bytes: ArraySlice<UInt8>) -> Int {
            bytes.reversed().reduce(0) { $0 << 8 + Int($1) }
        }
    }
#endif
