import CLinux
import LockboxCore
import LockboxPlatform
import LockboxSodium

/// The user's keyring in the Linux kernel, user-keyring(7): named secrets in kernel memory, available to every
/// process of the user. On other systems, and where a sandbox blocks the system calls, it is empty and accepts
/// no keys.
struct KernelKeyring: Sendable {
    /// The kernel's ID of a key. Adding a key again gives it a new one.
    typealias Serial = Int32

    /// For tests, called before every system call, once for a lock that is waited for: if it returns an error code, the call
    /// fails with it.
    var fault: (@Sendable () -> CInt?)?

    /// `KEY_POS_ALL | KEY_USR_ALL`: the user's processes may do everything, others nothing.
    private static let permissions: UInt32 = 0x3F3F_0000
    static let maximumLength = 32_767  // keyctl(2), keys of the type "user"

    func serial(of name: String) -> Serial? {
        let result = call { kernel_key_search(name) }
        return result > 0 ? Serial(result) : nil
    }

    /// Adds a key, replacing one of the same name. Returns false if the kernel refuses.
    func add(_ name: String, _ bytes: [UInt8], seconds: UInt32?) -> Bool {
        guard let key = make(name, length: bytes.count) else { return false }
        return publish(key, bytes, seconds: seconds)
    }

    /// Makes a key that this process alone sees, until ``publish(_:_:seconds:)``. Returns nil if the kernel refuses.
    func make(_ name: String, length: Int) -> Serial? {
        let result = call { kernel_key_add(name, [UInt8](repeating: 0, count: length), length) }
        return result > 0 ? Serial(result) : nil
    }

    /// Gives a key to the user's processes, in the place of one of the same name. It appears complete, including its timeout, or
    /// not at all.
    ///
    /// - Returns: false if the kernel refuses. The key is then gone.
    func publish(_ key: Serial, _ bytes: [UInt8], seconds: UInt32?) -> Bool {
        defer { _ = call { kernel_key_withdraw(key) } }
        if call({ kernel_key_update(key, bytes, bytes.count) }) < 0 { return false }
        if call({ kernel_key_set_permissions(key, Self.permissions) }) < 0 { return false }
        if let seconds, call({ kernel_key_set_timeout(key, seconds) }) < 0 { return false }
        return call { kernel_key_publish(key) } == 0
    }

    /// Reads a key into memory that is wiped afterwards. Returns nil if the key is gone or longer than
    /// `maximum`.
    func read<Result>(
        _ key: Serial,
        maximum: Int,
        _ body: (UnsafeMutableRawBufferPointer) throws -> Result?
    ) rethrows -> Result? {
        try withUnsafeTemporaryAllocation(byteCount: maximum, alignment: 8) { buffer in
            defer { Sodium.wipe(buffer) }
            let length = call { kernel_key_read(key, buffer.baseAddress, buffer.count) }
            // If the key is longer than the buffer, the kernel returns its full length.
            guard length >= 0, length <= buffer.count else { return nil }
            return try body(UnsafeMutableRawBufferPointer(rebasing: buffer[..<length]))
        }
    }

    /// Removes a key. Returns false if there is none.
    ///
    /// - Parameter orThrow: Whether it is an error if the kernel does not say whether there is one. Not where it has no keyring.
    @discardableResult
    func remove(_ name: String, orThrow: Bool = false) throws -> Bool {
        let found = call { kernel_key_search(name) }
        guard found > 0 else {
            if !orThrow || kernel_key_is_gone(found) != 0 || found == -Int(ENOSYS) { return false }
            throw LockboxError.storageFailure(operation: "keyctl", path: name, errno: CInt(-found))
        }
        let key = Serial(found)
        // Revoked first: from then on it cannot be read, even if it is linked elsewhere.
        let result = call { kernel_key_revoke(key) }
        _ = call { kernel_key_unlink(key) }
        // Another process may have removed it first.
        if kernel_key_is_gone(result) == 0, serial(of: name) != nil {
            throw LockboxError.storageFailure(operation: "keyctl", path: name, errno: CInt(-result))
        }
        return true
    }

    /// Lets the user's programs read a key and write it anew one after the other. Gives up after `patience`, as any user
    /// of the machine can take this lock, and runs `body` without it.
    func withLock<Result>(patience: Duration = .milliseconds(100), _ body: () throws -> Result) rethrows
        -> Result
    {
        let end = ContinuousClock.now + patience
        var lock = call { kernel_key_lock() }
        while lock == -Int(EWOULDBLOCK), ContinuousClock.now < end {
            usleep(1_000)
            lock = kernel_key_lock()
        }
        defer { if lock >= 0 { kernel_key_unlock(CInt(lock)) } }
        return try body()
    }

    private func call(_ body: () -> Int) -> Int {
        if let errno = fault?() { return -Int(errno) }
        return body()
    }
}
