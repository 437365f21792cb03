import CLinux
import LockboxPlatform

/// The process's environment variables. Empty variables count as unset. So do all variables in a program that has more
/// rights than the user who has started it.
package enum Environment {
    /// - Throws: `invalidLocation` if the value is not UTF-8. Repaired, two folders could become one.
    package static subscript(name: String) -> String? {
        get throws(LockboxError) {
            guard let bytes = bytes(name) else { return nil }
            if let text = String(validating: bytes, as: UTF8.self) { return text }
            throw LockboxError.invalidLocation(location: name, reason: "the variable is not UTF-8")
        }
    }

    /// The value as it is.
    package static func bytes(_ name: String) -> [UInt8]? {
        guard let value = trusted_environment(name), value.pointee != 0 else { return nil }
        return Array(UnsafeRawBufferPointer(start: value, count: strlen(value)))
    }
}
