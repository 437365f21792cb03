import ArgumentParser
import Lockbox

/// Standard input, and the names of files.
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
                let reason = String(cString: strerror(errno))
                throw Failure(.inputOutput, "Standard input cannot be read: \(reason).")
            }
            data.append(contentsOf: buffer[..<count])
        }
        throw Failure(.usage, "Standard input is longer than the limit of \(limit) bytes.")
    }

    /// Only a file can be replaced, and only a file can be read twice.
    static func checkIsFile(_ path: String) throws {
        if path == "-" {
            throw ValidationError(
                "- is not taken for standard input or output. Name a file, or ./- if that is its name."
            )
        }
    }
}
