import ArgumentParser
import Lockbox

/// Standard input, and short files.
enum Input {
    static func all(limit: Int = ArchivedValue.maximumSize) throws -> Data {
        try contents(of: STDIN_FILENO, "Standard input", limit)
    }

    /// - Parameter name: How messages name the file. By default, its path.
    static func file(_ path: String, name: String? = nil) throws -> Data {
        let name = name ?? path.onOneLine
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw unreadable(name) }
        defer { close(descriptor) }
        return try contents(of: descriptor, name, ArchivedValue.maximumSize)
    }

    /// Reads to the end of file, but at most one byte more than the limit, which is then refused.
    private static func contents(of descriptor: CInt, _ name: String, _ limit: Int) throws -> Data {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        while data.count <= limit {
            let count = read(descriptor, &buffer, buffer.count)
            if count == 0 { return data }
            if count < 0 {
                if errno == EINTR { continue }
                throw unreadable(name)
            }
            data.append(contentsOf: buffer[..<count])
        }
        throw Failure(.usage, "\(name) is longer than the limit of \(limit) bytes.")
    }

    private static func unreadable(_ name: String) -> Failure {
        Failure(.inputOutput, "\(name) cannot be read: \(String(cString: strerror(errno))).")
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
