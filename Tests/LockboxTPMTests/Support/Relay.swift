#if TPM
    import Foundation
    import Synchronization

    /// Stands between a program and a software TPM: records every byte, and may change what the TPM answers.
    final class Relay: Sendable {
        /// Returns what to send instead of an answer. nil: the connection ends.
        typealias Change = @Sendable (_ command: [UInt8], _ answer: [UInt8]) -> [UInt8]?

        let port: UInt16
        var tcti: String { "swtpm:host=127.0.0.1,port=\(port)" }
        var recording: Recording { state.withLock { Recording(bytes: $0.recording) } }
        var commands: [UInt32] { state.withLock { $0.commands } }

        private struct State {
            var recording = Data()
            var commands: [UInt32] = []
            var isClosed = false
        }
        private let state = Mutex(State())
        private let listeners: [TCPSocket]

        init(to port: UInt16, change: @escaping Change = { $1 }) throws {
            self.port = try TCPSocket.freePorts(2)
            listeners = [try TCPSocket(listeningOn: self.port), try TCPSocket(listeningOn: self.port + 1)]
            for (offset, listener) in listeners.enumerated() {
                Thread.detachNewThread { [self] in
                    while let client = listener.accept() {
                        relay(client, to: port + UInt16(offset), isControl: offset == 1, change)
                    }
                }
            }
        }

        /// Ends its threads: they wait for connections.
        func close() { for listener in listeners { listener.shutDown() } }

        private func relay(_ client: TCPSocket, to port: UInt16, isControl: Bool, _ change: Change) {
            guard let server = TCPSocket(connectingTo: port) else { return }
            while let command = client.read(), server.write(command) {
                guard let own = server.read(), let answer = isControl ? own : change(command, own) else {
                    return
                }
                state.withLock {
                    $0.recording += command + answer
                    if !isControl, command.count >= 10 { $0.commands.append(code(of: command)) }
                }
                guard client.write(answer) else { return }
            }
        }
    }

    /// What went over the bus. A failed test does not print it.
    struct Recording: CustomStringConvertible, CustomReflectable {
        let bytes: Data
        var description: String { "\(bytes.count) bytes" }
        var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// The code of a TPM's command: TPM2_CC.
    func code(of command: [UInt8]) -> UInt32 { command[6..<10].reduce(0) { $0 << 8 | UInt32($1) } }

    /// A TCP socket on this machine.
    final class TCPSocket: Sendable {
        private let descriptor: CInt

        private init(_ descriptor: CInt) {
            self.descriptor = descriptor
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        }

        deinit { close(descriptor) }

        convenience init(listeningOn port: UInt16) throws {
            self.init(socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0))
            var one: CInt = 1
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<CInt>.size))
            guard withAddress(port, bind) == 0, listen(descriptor, 8) == 0 else {
                throw POSIXError(.EADDRINUSE)
            }
        }

        convenience init?(connectingTo port: UInt16) {
            self.init(socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0))
            guard withAddress(port, connect) == 0 else { return nil }
        }

        private func withAddress(
            _ port: UInt16,
            _ call: (CInt, UnsafePointer<sockaddr>, socklen_t) -> CInt
        ) -> CInt {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            return withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    call(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        }

        /// Returns the first of some ports in a row that nobody listens on.
        static func freePorts(_ count: UInt16) throws -> UInt16 {
            for _ in 0..<1000 {
                let first = UInt16.random(in: 20_000..<32_000)
                let sockets = (0..<count).compactMap { try? TCPSocket(listeningOn: first + $0) }
                if sockets.count == count { return first }
            }
            throw POSIXError(.EADDRINUSE)
        }

        func accept() -> TCPSocket? {
            let client = Foundation.accept(descriptor, nil, nil)
            return client < 0 ? nil : TCPSocket(client)
        }

        func shutDown() { shutdown(descriptor, CInt(SHUT_RDWR)) }

        func read() -> [UInt8]? {
            var buffer = [UInt8](repeating: 0, count: 8192)
            let count = recv(descriptor, &buffer, buffer.count, 0)
            return count > 0 ? Array(buffer[..<count]) : nil
        }

        func write(_ bytes: [UInt8]) -> Bool {
            send(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL)) == bytes.count
        }
    }
#endif
