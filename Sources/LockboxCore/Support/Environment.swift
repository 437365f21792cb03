import CLinux
import LockboxPlatform

/// The process's environment variables. Empty variables count as unset. So do all variables in a program that has more
/// rights than the user who has started it.
package enum Environment {
    package static subscript(name: String) -> String? {
        trusted_environment(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
