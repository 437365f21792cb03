import Lockbox

/// A request of git's credential protocol: one attribute per line, in any encoding.
struct GitRequest {
    /// Larger than any request of git, which may include headers of a server's response.
    static let maximumLength = 256 * 1024

    private var attributes: [String: Data] = [:]

    /// - Throws: A ``Failure`` if the input is malformed. None of it is then used.
    init(_ input: Data) throws {
        for line in input.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            if line.isEmpty { break }
            guard let equals = line.firstIndex(of: UInt8(ascii: "=")), !line.contains(0),
                let name = String(validating: line[..<equals], as: UTF8.self)
            else {
                throw Failure(.usage, "Standard input is not a git credential request. Nothing was done.")
            }
            // git may repeat those that are lists. Of two hosts, nobody knows which one is meant.
            guard attributes[name] == nil || name.hasSuffix("[]") else {
                throw Failure(.usage, "git's request has `\(name.onOneLine)` twice. Nothing was done.")
            }
            attributes[name] = Data(line[line.index(after: equals)...])
        }
    }

    subscript(name: String) -> Data? { attributes[name] }
}
