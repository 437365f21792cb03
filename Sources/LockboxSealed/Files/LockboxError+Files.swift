import LockboxCore
import LockboxPlatform

/// What an error of a system call means in the terms of the storage contract.
extension LockboxError {
    /// Whether this process is not allowed to do it, or nobody is on this file system.
    var isRefusal: Bool {
        guard case .storageFailure(_, _, let code) = self else { return false }
        return [EROFS, EACCES, EPERM].contains(code)
    }

    /// Of a write, or of the lock that it needs.
    var ofWriting: LockboxError {
        guard case .storageFailure(let operation, let path, let code) = self, isRefusal else { return self }
        return .readOnly(location: path, reason: Self.reason(operation, code))
    }

    /// Of reading the record at that path.
    func ofReading(_ record: String) -> LockboxError {
        guard case .storageFailure(let operation, record, let code) = self,
            [EACCES, EPERM, EIO].contains(code)
        else { return self }
        return .unreadable(record: record, reason: Self.reason(operation, code))
    }

    static func reason(_ operation: String, _ code: CInt) -> String {
        "\(operation) failed: \(String(cString: strerror(code))) (errno \(code))"
    }
}
