import Foundation
import Synchronization

/// A TCP socket on this machine.
final class TCPSocket: Sendable {
    private let descriptor: CInt

    private init(_ descriptor: CInt) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit { close(descriptor) }

    private convenience init() { self.init(socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)) }

    convenience init(listeningOn port: Int) throws {
        self.init()
        guard bind(to: port), listen(descriptor, 16) == 0 else { throw POSIXError(.EADDRINUSE) }
    }

    convenience init?(connectingTo port: Int) {
        self.init()
        guard withAddress(port, connect) == 0 else { return nil }
    }

    // MARK: Ports

    /// Returns the first of some ports in a row that nobody listens on, and that were not returned before. They are below those
    /// that the system gives to connections, so a server gets them again after a restart. Another program could take them,
    /// which nothing prevents.
    static func freePorts(_ count: Int = 1) throws -> Int {
        for _ in 0..<1000 {
            let first = nextPort.withLock { next in
                if next + count > 32_000 { next = 20_000 }
                defer { next += count }
                return next
            }
            if (0..<count).allSatisfy({ isFree(first + $0) }) { return first }
        }
        throw POSIXError(.EADDRINUSE)
    }

    private static let nextPort = Mutex(Int.random(in: 20_000..<32_000))

    /// Does not listen, so nobody can connect meanwhile.
    static func isFree(_ port: Int) -> Bool { TCPSocket().bind(to: port) }

    /// Connections that are closing do not count.
    private func bind(to port: Int) -> Bool {
        var one: CInt = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<CInt>.size))
        return withAddress(port, Foundation.bind) == 0
    }

    private func withAddress(
        _ port: Int,
        _ call: (CInt, UnsafePointer<sockaddr>, socklen_t) -> CInt
    ) -> CInt {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                call(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    // MARK: Connections

    /// Each has a thread, which closes it after `serve`. They end when the listener is shut down.
    func acceptConnections(_ serve: @escaping @Sendable (TCPSocket) -> Void) {
        Thread.detachNewThread { [self] in
            while case let client = accept(descriptor, nil, nil), client >= 0 {
                let socket = TCPSocket(client)
                Thread.detachNewThread { serve(socket) }
            }
        }
    }

    /// Ends the thread that waits for connections, and the connection if this is one.
    func shutDown() { shutdown(descriptor, CInt(SHUT_RDWR)) }

    /// The bytes that have arrived, or nil if nothing more will.
    func read() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count > 0 ? Array(buffer[..<count]) : nil
    }

    /// Returns false if the other end has gone.
    @discardableResult
    func write(_ bytes: some Sequence<UInt8>) -> Bool {
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            if count <= 0 { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
