/// Runs blocking `work` (disk, network, Argon2id) on a thread outside the cooperative pool, and returns its
/// result. Canceling the task does not stop it.
package func offPool<Success: Sendable, Failure: Error>(
    _ work: @escaping @Sendable () throws(Failure) -> Success
) async throws(Failure) -> Success {
    let result: Result<Success, Failure> = await withCheckedContinuation { continuation in
        runBlocking { continuation.resume(returning: Result(catching: work)) }
    }
    return try result.get()
}
