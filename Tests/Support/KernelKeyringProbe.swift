import Foundation
import Testing

extension Trait where Self == ConditionTrait {
    static var needsKernelKeyring: Self {
        .enabled(if: hasKernelKeyring, "the kernel gives this process no keyring")
    }
}

/// Whether this kernel, and this sandbox, have a keyring for the user. Asked without Lockbox, which is what the tests are about.
/// The tests of etcd have a link to this file.
let hasKernelKeyring: Bool = {
    guard let keyring = KeyringCalls() else { return false }
    let name = "lockbox-tests:\(UInt64.random(in: .min ... .max))"
    guard keyring.add(name, Array("probe".utf8)) else { return false }
    return keyring.take(name) == Array("probe".utf8)
}()

/// add_key(2) and keyctl(2), for which the C library has no functions.
private struct KeyringCalls {
    private typealias Syscall = @convention(c) (Int, Int, Int, Int, Int, Int) -> Int

    private let syscall: Syscall
    private let addKey: Int
    private let keyctl: Int

    private static let processKeyring = -2
    private static let userKeyring = -4

    init?() {
        guard let function = dlsym(nil, "syscall") else { return nil }
        syscall = unsafeBitCast(function, to: Syscall.self)
        #if os(Linux) && arch(x86_64)
            (addKey, keyctl) = (248, 250)
        #elseif os(Linux)
            (addKey, keyctl) = (217, 219)
        #else
            return nil
        #endif
    }

    /// Into the keyring of the process first, where it can be given to the user.
    func add(_ name: String, _ payload: [UInt8]) -> Bool {
        let key = withStrings(name) { type, name in
            payload.withUnsafeBytes {
                syscall(addKey, type, name, Int(bitPattern: $0.baseAddress), $0.count, Self.processKeyring)
            }
        }
        guard key > 0 else { return false }
        defer { _ = syscall(keyctl, 9, key, Self.processKeyring, 0, 0) }  // KEYCTL_UNLINK
        return syscall(keyctl, 5, key, 0x3F3F_0000, 0, 0) == 0  // KEYCTL_SETPERM: everything, to the user
            && syscall(keyctl, 8, key, Self.userKeyring, 0, 0) == 0  // KEYCTL_LINK
    }

    /// Reads and removes it.
    func take(_ name: String) -> [UInt8]? {
        let key = withStrings(name) { syscall(keyctl, 10, Self.userKeyring, $0, $1, 0) }  // KEYCTL_SEARCH
        guard key > 0 else { return nil }
        var buffer = [UInt8](repeating: 0, count: 64)
        let count = buffer.withUnsafeMutableBytes {
            syscall(keyctl, 11, key, Int(bitPattern: $0.baseAddress), $0.count, 0)  // KEYCTL_READ
        }
        guard syscall(keyctl, 9, key, Self.userKeyring, 0, 0) == 0, (0...64).contains(count) else {
            return nil
        }
        return Array(buffer[..<count])
    }

    private func withStrings(_ name: String, _ body: (_ type: Int, _ name: Int) -> Int) -> Int {
        "user".withCString { type in
            name.withCString { body(Int(bitPattern: type), Int(bitPattern: $0)) }
        }
    }
}
