#if TPM
    import Foundation
    import Synchronization

    /// Stands between a program and a software TPM: records every byte, and may change what the TPM answers.
    final class Relay: Sendable {
        /// Returns what to send instead of an answer. nil: the connection ends.
        typealias Change = @Sendable (_ command: [UInt8], _ answer: [UInt8]) -> [UInt8]?

        let port: Int
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

        init(to port: Int, change: @escaping Change = { $1 }) throws {
            self.port = try TCPSocket.freePorts(2)
            listeners = [try TCPSocket(listeningOn: self.port), try TCPSocket(listeningOn: self.port + 1)]
            for (offset, listener) in listeners.enumerated() {
                listener.acceptConnections { [self] client in
                    relay(client, to: port + offset, isControl: offset == 1, change)
                }
            }
        }

        /// Ends its threads: they wait for connections.
        func close() { for listener in listeners { listener.shutDown() } }

        private func relay(_ client: TCPSocket, to port: Int, isControl: Bool, _ change: Change) {
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

    /// The traffic on the bus. A failed test does not print it.
    struct Recording: CustomStringConvertible, CustomReflectable {
        let bytes: Data
        var description: String { "\(bytes.count) bytes" }
        var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// The code of a TPM's command: TPM2_CC.
    func code(of command: [UInt8]) -> UInt32 { command[6..<10].reduce(0) { $0 << 8 | UInt32($1) } }
#endif
