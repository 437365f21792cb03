import Lockbox

/// The process's environment variables. Empty variables count as unset.
enum Environment {
    static func isSet(_ name: String) -> Bool { getenv(name).map { $0.pointee != 0 } ?? false }

    /// - Throws: A ``Failure`` if the value is not UTF-8. Repaired, two folders could become one.
    static subscript(name: String) -> String? {
        get throws {
            guard let value = getenv(name), value.pointee != 0 else { return nil }
            if let text = String(validatingCString: value) { return text }
            throw Failure(.usage, "The environment variable \(name) is not UTF-8.")
        }
    }
}
