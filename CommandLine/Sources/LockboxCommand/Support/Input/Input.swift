import Lockbox

/// Standard input, and short files.
enum Input {
    /// Reads to the end of file, but at most one byte more than the limit, which is then refused.
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
        throw Failure(.usage, "Standard input is longer than the limit of \(limit) bytes.")
    }

    /// A file without the line feed at its end.
    static func line(of path: String) throws -> String {
        let data: Data
        do { data = try Data(contentsOf: URL(filePath: path)) } catch {
            throw Failure(.inputOutput, "\(path.onOneLine) cannot be read.")
        }
        guard let text = String(validating: data, as: UTF8.self) else {
            throw Failure(.usage, "\(path.onOneLine) is not UTF-8.")
        }
        return text.hasSuffix("\n") ? String(text.dropLast()) : text
    }
}
