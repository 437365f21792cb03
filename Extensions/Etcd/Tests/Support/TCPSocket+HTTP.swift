#if Etcd
    import Foundation

    extension TCPSocket {
        /// A whole request or answer of HTTP, or nil if there is no more. Long answers of etcd come in chunks, the others state
        /// their length.
        func message() -> Data? {
            var bytes = Data()
            while true {
                if let end = bytes.range(of: Data("\r\n\r\n".utf8)), isWhole(bytes, end) { return bytes }
                guard let more = read() else { return nil }
                bytes += more
            }
        }

        private func isWhole(_ bytes: Data, _ end: Range<Data.Index>) -> Bool {
            let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).lowercased()
            if head.contains("transfer-encoding: chunked") {
                return bytes.suffix(7) == Data("\r\n0\r\n\r\n".utf8)
            }
            let field = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
            let length = field.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
            return bytes.count >= end.upperBound + length
        }
    }
#endif
