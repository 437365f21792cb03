import Lockbox

/// Standard input.
enum Input {
    /// Everything up to its end, but never more than an item can hold and a byte, by which it is refused.
    static func all(limit: Int = ArchivedValue.maximumSize) throws -> Data {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        while data.count <= limit {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            if count == 0 { return data }
            if count < 0 {
                if errno == EINTR { continue }
                throw Failure(
                    .inputOutput,
                    "Reading standard input failed: \(String(cString: strerror(errno)))."
                )
            }
            data.append(contentsOf: buffer[..<count])
        }
        throw Failure(.usage, "Standard input has more than \(limit) bytes, which is the limit.")
    }
}
