import Dispatch

/// Runs `work`, which may wait for a disk, a network or Argon2id, on a thread of its own instead of one of the cooperative
/// pool, and returns what it returns. It is not cancelled with the task.
package func offPool<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result
{
    try await withCheckedThrowingContinuation { continuation in
        queue.async { continuation.resume(with: Swift.Result { try work() }) }
    }
}

private let queue = DispatchQueue(label: "lockbox", attributes: .concurrent)
