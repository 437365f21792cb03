import Lockbox

/// The process's environment variables. Empty variables count as unset.
enum Environment {
    static subscript(name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
