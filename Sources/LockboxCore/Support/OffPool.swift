import Dispatch

/// Runs blocking `work` (disk, network, Argon2id) on a thread outside the cooperative pool, and returns its
/// result. Canceling the task does not stop it.
package func offPool<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result
{
    try await withCheckedThrowingContinuation { continuation in
        queue.async { continuation.resume(with: Swift.Result { try work() }) }
    }
}

private let queue = DispatchQueue(label: "lockbox", attributes: .concurrent)
