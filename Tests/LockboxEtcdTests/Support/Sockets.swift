#if Etcd
    import Foundation

    import LockboxCore

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

    func listening(_ port: Int) throws -> CInt {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try with(port) { bind(descriptor, $0, $1) }
        guard listen(descriptor, 16) == 0 else { throw CocoaError(.fileReadUnknown) }
        return descriptor
    }

    /// Each connection has a thread, which closes it after `serve`. They end when the listener is shut down.
    func acceptConnections(_ listener: CInt, _ serve: @escaping @Sendable (CInt) -> Void) throws {
        try detachThread {
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 { return }
                try? detachThread {
                    serve(client)
                    close(client)
                }
            }
        }
    }

    func connected(_ port: Int) throws -> CInt {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        try with(port) { connect(descriptor, $0, $1) }
        return descriptor
    }

    func send(_ descriptor: CInt, _ bytes: Data) {
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
    func message(_ descriptor: CInt) -> Data? {
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
