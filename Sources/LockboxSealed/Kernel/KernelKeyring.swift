import CLinux
import LockboxCore
import LockboxPlatform
import LockboxSodium

/// The user's keyring in the Linux kernel, user-keyring(7): named secrets in the kernel's memory, for every process of the
/// user. Elsewhere, and where a sandbox refuses the calls, it is empty and takes nothing.
struct KernelKeyring: Sendable {
    /// What the kernel calls a key. A key that is added again has another one.
    typealias Serial = Int32

    /// Asked before every call: what the call fails with, instead of being made.
    var fault: (@Sendable () -> CInt?)?

    /// `KEY_POS_ALL | KEY_USR_ALL`: the user's processes may do everything, others nothing.
    private static let permissions: UInt32 = 0x3F3F_0000
    static let maximumLength = 32_767  // keyctl(2), keys of the type "user"

    func serial(of name: String) -> Serial? {
        let result = call { kernel_key_search(name) }
        return result > 0 ? Serial(result) : nil
    }

    /// Adds a key in place of another of the same name. It appears complete, with its time limit, or not at all.
    ///
    /// - Returns: false if the kernel refuses.
    func add(_ name: String, _ payload: UnsafeRawBufferPointer, seconds: UInt32?) -> Bool {
        let result = call { kernel_key_add(name, payload.baseAddress, payload.count) }
        guard result > 0 else { return false }
        let key = Serial(result)
        defer { _ = call { kernel_key_withdraw(key) } }
        if call({ kernel_key_set_permissions(key, Self.permissions) }) < 0 { return false }
        if let seconds, call({ kernel_key_set_timeout(key, seconds) }) < 0 { return false }
        return call { kernel_key_publish(key) } == 0
    }

    /// Reads a key into memory that is wiped afterwards; nil if it has gone, or is longer than any of ours.
    func read<Result>(
        _ key: Serial,
        maximum: Int,
        _ body: (UnsafeMutableRawBufferPointer) throws -> Result?
    ) rethrows -> Result? {
        try withUnsafeTemporaryAllocation(byteCount: maximum, alignment: 8) { buffer in
            defer { Sodium.wipe(buffer) }
            let length = call { kernel_key_read(key, buffer.baseAddress, buffer.count) }
            // A length of more than the buffer: the kernel has copied only what fits.
            guard length >= 0, length <= buffer.count else { return nil }
            return try body(UnsafeMutableRawBufferPointer(rebasing: buffer[..<length]))
        }
    }

    /// Wipes a key. False if it is not there.
    @discardableResult
    func remove(_ name: String) throws -> Bool {
        guard let key = serial(of: name) else { return false }
        // Revoked first: from then on nobody reads it, wherever else it is linked.
        let result = call { kernel_key_revoke(key) }
        _ = call { kernel_key_unlink(key) }
        // Somebody else may have been faster.
        if kernel_key_is_gone(result) == 0, serial(of: name) != nil {
            throw LockboxError.storageFailure(operation: "keyctl", path: name, errno: CInt(-result))
        }
        return true
    }

    private func call(_ body: () -> Int) -> Int {
        if let errno = fault?() { return -Int(errno) }
        return body()
    }
}
